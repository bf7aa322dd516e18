package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
)

// query is the query of a request, every value of which has been checked.
type query struct{ values url.Values }

// readQuery checks a request's query against the parameters of its operation.
func readQuery(r *http.Request, params []operation.Param) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, badQuery("the query cannot be read", "percent-encode its values")
	}
	for name, got := range values {
		i := slices.IndexFunc(params, func(p operation.Param) bool { return p.Name == name })
		if i < 0 {
			return query{}, badQuery(fmt.Sprintf("there is no parameter %q here", name), "use: "+names(params))
		}
		if err := checkParam(params[i], got); err != nil {
			return query{}, err
		}
	}
	return query{values}, nil
}

func checkParam(p operation.Param, got []string) error {
	if len(got) > 1 && !p.Many {
		return badQuery("parameter "+p.Name+" is given twice", "give it once")
	}
	for _, v := range got {
		switch {
		case p.Type == "integer":
			if _, err := strconv.ParseUint(v, 10, 63); err != nil {
				return badQuery(fmt.Sprintf("parameter %s is %q", p.Name, v), "give a number of 0 or more")
			}
		case p.Type == "boolean" && v != "true" && v != "false":
			return badQuery(fmt.Sprintf("parameter %s is %q", p.Name, v), "give true or false")
		case len(p.Words) > 0 && !slices.Contains(p.Words, v):
			return badQuery(fmt.Sprintf("parameter %s is %q", p.Name, v), "give one of: "+strings.Join(p.Words, ", "))
		}
	}
	return nil
}

func names(params []operation.Param) string {
	out := make([]string, len(params))
	for i, p := range params {
		out[i] = p.Name
	}
	return strings.Join(out, ", ")
}

func badQuery(what, hint string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "query", What: what, Hint: hint}
}

func (q query) text(name string) string    { return q.values.Get(name) }
func (q query) texts(name string) []string { return q.values[name] }
func (q query) is(name string) bool        { return q.values.Get(name) == "true" }

func (q query) number(name string) uint64 {
	n, _ := strconv.ParseUint(q.values.Get(name), 10, 63) // it was checked, or is not there
	return n
}

// count is a number that fits an int.
func (q query) count(name string) int { return int(min(q.number(name), 1<<30)) }

// asMaxBytes says in words that a body was over its limit.
func asMaxBytes(err error) (string, bool) {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Sprintf("the body is over %d bytes", e.Limit), true
	}
	return "", false
}
