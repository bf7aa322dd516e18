package agui

import (
	"maps"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// sourceName is the key under which an event's metadata has what AG-UI has no
// place for, the source of RAW events, and the prefix of CUSTOM names and
// activity types.
const sourceName = "agentscope"

// reservedName is the key of metadata that AG-UI keeps for itself.
const reservedName = "ag-ui"

// layouts of created_at: AgentScope's own, and with a zone.
var layouts = []string{"2006-01-02T15:04:05", time.RFC3339}

// readTime takes the time of an event as that of the AG-UI events it becomes.
func (m *Mapper) readTime(e message.Event) {
	zone := m.opt.Zone
	if zone == nil {
		zone = time.UTC
	}
	at := e.Header().CreatedAt
	for _, layout := range layouts {
		t, err := time.ParseInLocation(layout, at, zone)
		ms := t.UnixMilli()
		if err != nil || ms < -maxSafe || ms > maxSafe {
			continue
		}
		m.at = &ms
		if t.Nanosecond()%int(time.Millisecond) != 0 || layout == time.RFC3339 && !strings.HasSuffix(at, "Z") {
			m.lose(e, LossTime)
		}
		return
	}
	if at != "" {
		m.lose(e, LossTime)
	}
	m.at = nil
}

// base is the beginning of an AG-UI event that e becomes: its time, its
// metadata, and under [sourceName] its id and what more is given.
func (m *Mapper) base(e message.Event, more map[string]any) Base {
	h := e.Header()
	own := map[string]any{}
	if h.ID != "" {
		own["eventId"] = h.ID
	}
	maps.Copy(own, more)
	all := make(map[string]any, len(h.Metadata)+1)
	for k, v := range h.Metadata {
		if k == sourceName || k == reservedName {
			m.lose(e, LossMetadata)
			continue
		}
		all[k] = v
	}
	if len(own) > 0 {
		all[sourceName] = own
	}
	raw, err := strictjson.Marshal(all)
	if err != nil { // something that JSON cannot hold
		m.lose(e, LossMetadata)
		raw, err = strictjson.Marshal(map[string]any{sourceName: own})
	}
	if err != nil || len(all) == 0 {
		return Base{Timestamp: m.at}
	}
	return Base{Timestamp: m.at, Metadata: raw}
}

func (m *Mapper) taggedBase(e message.Event, more map[string]any) Tagged {
	return Tagged{Base: m.base(e, more)}
}

// plainBase is the beginning of an event that nothing else is said about.
func (m *Mapper) plainBase() Tagged { return Tagged{Base: Base{Timestamp: m.at}} }

// object writes an object; nil if JSON cannot hold it.
func object(members map[string]any) message.RawJSON {
	raw, err := strictjson.Marshal(members)
	if err != nil {
		return nil
	}
	return raw
}
