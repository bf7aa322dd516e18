package mcp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// The revisions. The protocol calls the newest modern and the others legacy.
const (
	modernVersion = "2026-07-28"
	legacyNewest  = "2025-11-25"
)

var legacyVersions = []string{legacyNewest, "2025-06-18", "2025-03-26", "2024-11-05"}

func allVersions() []string { return append([]string{modernVersion}, legacyVersions...) }

func isLegacy(version string) bool { return slices.Contains(legacyVersions, version) }

// Names in _meta.
const (
	metaPrefix       = "io.modelcontextprotocol/"
	metaVersion      = metaPrefix + "protocolVersion"
	metaCapabilities = metaPrefix + "clientCapabilities"
	metaClient       = metaPrefix + "clientInfo"
	metaLevel        = metaPrefix + "logLevel"
	metaServer       = metaPrefix + "serverInfo"
	metaSubscription = metaPrefix + "subscriptionId"
	metaDecision     = "dev.askance/decision"
	tasksExtension   = metaPrefix + "tasks"
)

// eraOf returns the envelope of a request, and whether the request is modern.
func eraOf(params object) (meta object, modern bool) {
	meta = objectOf(params.get("_meta"))
	return meta, meta.get(metaVersion) != nil
}

// checkModern refuses a modern request whose envelope is not complete.
func checkModern(meta object) *rpcError {
	switch version := meta.text(metaVersion); {
	case version == "":
		return badParams("_meta %q is missing: send the protocol version with each request", metaVersion)
	case version != modernVersion:
		return &rpcError{code: codeVersion, text: "Unsupported protocol version", data: encode(map[string]any{"supported": allVersions(), "requested": version})}
	case objectOf(meta.get(metaCapabilities)) == nil && string(meta.get(metaCapabilities)) != "{}":
		return badParams("_meta %q is missing: send the client's capabilities with each request", metaCapabilities)
	}
	return nil
}

// forUpstream converts the params of a request for a server of the link's era.
func (l *link) forUpstream(params object) object {
	old := objectOf(params.get("_meta"))
	meta := slices.DeleteFunc(slices.Clone(old), func(m strictjson.Member) bool { return strings.HasPrefix(m.Name, metaPrefix) })
	if l.modern {
		meta = meta.with(metaVersion, quote(l.version)).with(metaCapabilities, l.peer.upstreamCapabilities())
		if info := l.peer.info; info != nil {
			meta = meta.with(metaClient, info)
		}
		if level := old.get(metaLevel); level != nil {
			meta = meta.with(metaLevel, level)
		} else if level := l.peer.level(); level != nil {
			meta = meta.with(metaLevel, level)
		}
	}
	if len(meta) == 0 {
		return params.without("_meta")
	}
	return params.with("_meta", meta.bytes())
}

// cacheable are the methods whose results say how long they are valid.
var cacheable = []string{"tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "server/discover"}

// forClient converts a result of either era for the client.
func (p *peer) forClient(method string, result json.RawMessage) json.RawMessage {
	o := objectOf(result)
	if !p.modern {
		if o.text("resultType") == "complete" {
			return o.without("resultType").bytes()
		}
		return result
	}
	changed := false
	set := func(name, value string) {
		if o.get(name) == nil {
			o, changed = o.with(name, json.RawMessage(value)), true
		}
	}
	set("resultType", `"complete"`)
	if slices.Contains(cacheable, method) && o.text("resultType") == "complete" {
		set("ttlMs", "0")
		set("cacheScope", `"private"`)
	}
	if !changed {
		return result
	}
	return o.bytes()
}

// upstreamCapabilities returns the client's capabilities without tasks, because the gateway holds
// calls and runs each to its end.
func (p *peer) upstreamCapabilities() json.RawMessage {
	caps := objectOf(p.caps).without("tasks")
	if ext := objectOf(caps.get("extensions")); ext.get(tasksExtension) != nil {
		caps = caps.with("extensions", ext.without(tasksExtension).bytes())
	}
	return caps.bytes()
}

// can reports whether the client declares a capability, by its path.
func (p *peer) can(path ...string) bool { return objectOf(p.caps).at(path...) != nil }
