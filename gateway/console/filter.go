package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// filter selects and orders the listed calls. The address of every call page carries it.
type filter struct {
	Show                 string
	Words                string
	Tool, Agent, Session string
	Rule                 string
	Mine                 bool
	Sort, Group          string
	Cursor               string // continues after the previous page
	From                 int    // calls on previous pages
}

func filterOf(q url.Values) filter {
	f := filter{
		Show: q.Get("show"), Words: strings.TrimSpace(q.Get("q")), Tool: q.Get("tool"), Agent: q.Get("agent"), Session: q.Get("in"), Rule: q.Get("by_rule"),
		Mine: q.Get("mine") != "", Sort: q.Get("sort"), Group: q.Get("group"), Cursor: q.Get("cursor"),
	}
	if !slices.ContainsFunc(tabs, func(t listed) bool { return t.name == f.Show }) {
		f.Show = showOpen
	}
	if !isChoice(sorts, f.Sort) || f.Sort == f.defaultSort() {
		f.Sort = ""
	}
	if !isChoice(groups, f.Group) {
		f.Group = ""
	}
	if _, err := strconv.ParseUint(f.Cursor, 10, 64); err != nil && f.Show == showDone {
		f.Cursor = ""
	}
	if n, err := strconv.Atoi(q.Get("from")); err == nil && n > 0 && f.Cursor != "" {
		f.From = n
	}
	return f
}

// defaultSort orders open requests by deadline, and other calls newest first.
func (f filter) defaultSort() string {
	if f.Show == showOpen {
		return toolcall.SortDeadline
	}
	return toolcall.SortAge
}

func (f filter) Order() string { return cmp.Or(f.Sort, f.defaultSort()) }

// Fields returns the filter as URL parameters or form fields, without defaults.
func (f filter) Fields() url.Values {
	q := setParams(url.Values{}, "q", f.Words, "tool", f.Tool, "agent", f.Agent, "in", f.Session, "by_rule", f.Rule, "sort", f.Sort, "group", f.Group, "cursor", f.Cursor)
	if f.Show != showOpen {
		q.Set("show", f.Show)
	}
	if f.Mine {
		q.Set("mine", "1")
	}
	if f.From > 0 {
		q.Set("from", strconv.Itoa(f.From))
	}
	return q
}

// first returns the filter without its place in the list.
func (f filter) first() filter {
	f.Cursor, f.From = "", 0
	return f
}

func (f filter) listAddress() string { return withParams(pathInbox, f.Fields()) }

func (f filter) request() toolcall.ListRequest {
	r := toolcall.ListRequest{V: 1, Words: f.Words, Mine: f.Mine, Sort: f.Order(), Cursor: f.Cursor, Limit: pageRows}
	add := func(to *[]string, value string) {
		if value != "" {
			*to = []string{value}
		}
	}
	add(&r.Tools, f.Tool)
	add(&r.Agents, f.Agent)
	add(&r.Rules, f.Rule)
	if f.Session != "" {
		r.Sessions = []message.SessionID{message.SessionID(f.Session)}
	}
	for _, t := range tabs {
		if t.name == f.Show {
			r.Phases = t.phases
		}
	}
	switch {
	case f.Show == showDone:
		r.All, r.Newest, r.Sort, r.Cursor = true, true, "", ""
		r.After, _ = strconv.ParseUint(f.Cursor, 10, 64) // filterOf keeps no other cursor
	case f.Group == "tool":
		r.Sort = toolcall.SortTool
	case f.Group == "agent":
		r.Sort = toolcall.SortAgent
	}
	return r
}

// maxFound limits how many calls a search shows.
const maxFound = 12

// find shows the calls that match the words, or those within one call, in pages of one tab each after
// the first. The script's search palette reads this page.
func (f figures) find(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	s := f.shell(r, p, "find", "Search – askance")
	q := r.URL.Query()
	words := strings.TrimSpace(q.Get("q"))
	view := struct {
		shell
		Words  string
		Within *toolcall.Key
		Found  []row
		More   []tab // of the tabs with matches that are not among Found
	}{shell: s, Words: words}
	if name := q.Get("within"); name != "" {
		k, err := parseKey(name, p.Space.ID)
		if err != nil {
			return f.fail(w, s, err)
		}
		view.Within, words = &k, strings.Join([]string{string(k.Session), string(k.Reply), string(k.Call)}, " ")
	}
	if words == "" {
		return f.write(w, http.StatusOK, "find", view)
	}
	ctx := r.Context()
	c, err := p.Reader()
	if err != nil {
		return err
	}
	for _, t := range tabs {
		more := tab{Label: strings.ToLower(t.label), Href: filter{Show: t.name, Words: words}.listAddress()}
		r := toolcall.ListRequest{V: 1, Words: words, Phases: t.phases, Sort: toolcall.SortAge, Limit: maxFound - len(view.Found)}
		if t.name == showDone {
			more.Href = withParams(pathHistory, url.Values{"q": {words}})
			r.All, r.Newest, r.Sort = true, true, ""
		}
		if view.Within != nil {
			if only := q.Get("show"); only != "" && only != t.name {
				continue
			}
			r.Limit, r.Cursor = 0, q.Get("cursor") // the words also match other calls
			if r.Newest {
				r.After, _ = strconv.ParseUint(r.Cursor, 10, 64)
				r.Cursor = ""
			}
		} else if r.Limit == 0 { // whether it has any is not known
			view.More = append(view.More, more)
			continue
		}
		page, err := c.List(ctx, r)
		if err != nil {
			return f.fail(w, s, err)
		}
		mine, err := listMine(ctx, c, p, r, page.Calls)
		if err != nil {
			return f.fail(w, s, err)
		}
		for _, call := range page.Calls {
			if k := view.Within; k != nil && (call.Parent == nil || call.Parent.ParentKey != toolcall.ParentKey{Session: k.Session, Reply: k.Reply, Call: k.Call}) {
				continue
			}
			view.Found = append(view.Found, rowOf(call, p, mine[call.Key], filter{Show: showOpen}, toolcall.Key{}, f.now()))
		}
		if page.Next != 0 || page.Cursor != "" {
			if view.Within != nil {
				more.Href = withParams(pathFind, url.Values{"within": {q.Get("within")}, "show": {t.name}, "cursor": {cmp.Or(page.Cursor, strconv.FormatUint(page.Next, 10))}})
			}
			view.More = append(view.More, more)
		}
	}
	return f.write(w, http.StatusOK, "find", view)
}

// columnHead is the heading of a column and the address that sorts by it.
type columnHead struct {
	Label, Class string
	Href         string // "": it does not sort
	Aria         string // ascending or descending, if it sorts the table
}

// sortColumn is a column of rows T. One with a class sorts highest first, others alphabetically.
type sortColumn[T any] struct {
	label, class string
	less         func(a, b T) int // nil: not sortable
}

// sortRows sorts rows by the column named in the parameter sort_TABLE, reversed if the name starts
// with "-", and by default by column number fallback. The headings link to the other orders of the
// page.
func sortRows[T any](page string, q url.Values, table string, rows []T, columns []sortColumn[T], fallback int) []columnHead {
	param := "sort_" + table
	name, back := strings.CutPrefix(q.Get(param), "-")
	by := slices.IndexFunc(columns, func(c sortColumn[T]) bool { return c.less != nil && strings.ToLower(c.label) == name })
	if by < 0 {
		by, back = fallback, false
	}
	heads := make([]columnHead, len(columns))
	for i, c := range columns {
		heads[i] = columnHead{Label: c.label, Class: c.class}
		if c.less == nil {
			continue
		}
		to := maps.Clone(q)
		to.Set(param, strings.ToLower(c.label))
		if i == by {
			if heads[i].Aria = "descending"; (c.class == "") != back {
				heads[i].Aria = "ascending"
			}
			if !back {
				to.Set(param, "-"+to.Get(param))
			}
		}
		heads[i].Href = page + "?" + to.Encode()
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if back {
			a, b = b, a
		}
		return columns[by].less(a, b)
	})
	return heads
}

// highest compares numbers, highest first.
func highest[T any](of func(T) int) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(of(b), of(a)) }
}

// compareNames sorts as people do: Bob stands before cy.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
}

const numeric = "num"

// sharesBy are the columns of a table of tools, rules or agents.
func sharesBy(head string, tools []toolcall.ActivityTool) []sortColumn[toolcall.ActivityShare] {
	type share = toolcall.ActivityShare
	label, count := "Calls", func(s share) int { return s.Proposed }
	if head == "Rule" {
		label, count = "Decisions", share.Decided
	}
	out := []sortColumn[share]{
		{head, "", func(a, b share) int { return compareNames(a.Name, b.Name) }},
		{label, numeric, highest(count)},
		{"Policy", "bar-cell", nil},
		{"Asked", numeric, highest(func(s share) int { return s.Asked })},
		{"Responses", "bar-cell", nil},
	}
	if tools != nil {
		of := func(s share) toolcall.ActivityTool {
			if i := slices.IndexFunc(tools, func(t toolcall.ActivityTool) bool { return t.Name == s.Name }); i >= 0 {
				return tools[i]
			}
			return toolcall.ActivityTool{}
		}
		out = append(out,
			sortColumn[share]{"Decision", numeric, highest(func(s share) int { return int(of(s).ToDecision.P50MS) })},
			sortColumn[share]{"Run", numeric, highest(func(s share) int { return int(of(s).Run.P50MS) })})
	}
	return append(out, sortColumn[share]{"Failed", numeric, highest(func(s share) int { return s.Failed })})
}

var reviewersBy = func() []sortColumn[toolcall.ReviewerLoad] {
	type load = toolcall.ReviewerLoad
	return []sortColumn[load]{
		{"Name", "", func(a, b load) int { return compareNames(a.Name, b.Name) }},
		{"Open", numeric, highest(func(l load) int { return l.Open })},
		{"Responses", numeric, highest(func(l load) int { return l.Answered })},
		{"Outcome", "bar-cell", nil},
		{"Approved", numeric, highest(func(l load) int { return l.Approved })},
		{"Rejected", numeric, highest(func(l load) int { return l.Rejected })},
		{"Responded", numeric, highest(func(l load) int { return l.Responded })},
		{"Delegated", numeric, highest(func(l load) int { return l.Passed })},
		{"Median", numeric, highest(func(l load) int { return int(l.MedianMS) })},
		{"Within 2s", numeric, highest(func(l load) int { return int(l.FastShare() * 1e6) })},
	}
}()
