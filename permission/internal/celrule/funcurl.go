package celrule

import (
	"errors"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"

	"github.com/askance-dev/askance/permission/internal/urls"
)

// urlFunctions take URLs apart as every program does that opens them.
func urlFunctions() []ownFunction {
	one := func(name, doc string, result *cel.Type, bind cel.OverloadOpt, size cost.QuantityExpr) ownFunction {
		return ownFunction{name: "url." + name, signature: "url." + name + "(string) -> " + result.String(), doc: doc,
			overloads: []overload{{id: "url_" + name, args: oneText, result: result, bind: bind, cost: scanCost(0, urls.MaxLen), size: size}}}
	}
	return []ownFunction{
		one("hasUser", `Whether the URL carries a user name or a password.`, cel.BoolType,
			ofURL(func(u urls.URL) (bool, error) { return u.User, nil }), nil),
		one("host", `The host in its one form: lower case, punycode, no trailing dot, IPv6 without brackets.`, cel.StringType,
			ofURL(func(u urls.URL) (string, error) { return u.Host, nil }), cost.Const(maxHost)),
		{
			name: "url.hostIn", signature: "url.hostIn(string, list(string)) -> bool",
			doc: `Whether the host is on the list: "example.com" is that name on every port, "*.example.com" every name below it, "10.0.0.0/8" a range of addresses, and ":8443" behind any of the others one port.`,
			overloads: []overload{{id: "url_host_in", args: textAnd, result: cel.BoolType, bind: ofTextAndList(hostIn),
				cost: cost.Sum(scanCost(0, urls.MaxLen), scanList(1, hostLen))}},
			literal: func(arg int, text string) error {
				if arg != 1 {
					return nil
				}
				_, err := urls.ParseHosts([]string{text})
				return err
			},
		},
		one("isAddress", `Whether the host is an IP address.`, cel.BoolType,
			ofURL(func(u urls.URL) (bool, error) { return u.Addr, nil }), nil),
		one("isPrivate", `Whether the host is known to be no public one: loopback, private, link-local or reserved addresses, names without a dot and names such as localhost. A public name may still lead to such an address.`, cel.BoolType,
			ofURL(func(u urls.URL) (bool, error) { return u.Private(), nil }), nil),
		one("origin", `Scheme, host and port, without a port that is the scheme's default: "https://example.com".`, cel.StringType,
			ofURL(func(u urls.URL) (string, error) { return u.Origin(), nil }), cost.Const(maxOrigin)),
		one("path", `The path without dot segments and without needless escapes.`, cel.StringType,
			ofURL(urls.URL.Path), cost.Scale(cost.Min(cost.Length(cost.Arg(0)), cost.Const(urls.MaxLen)), 3)),
		one("port", `The port, that of the scheme where none is written.`, cel.IntType, ofURL(urlPort), nil),
		one("scheme", `The scheme in lower case.`, cel.StringType,
			ofURL(func(u urls.URL) (string, error) { return u.Scheme, nil }), cost.Length(cost.Arg(0))),
		{
			name: "url.within", signature: "url.within(string, string) -> bool",
			doc: `Whether the first URL has scheme, host and port of the second and a path that is the second's or below it, by whole segments.`,
			overloads: []overload{{id: "url_within", args: twoTexts, result: cel.BoolType, bind: ofTexts(urlWithin),
				cost: cost.Sum(scanCost(0, urls.MaxLen), scanCost(1, urls.MaxLen))}},
			literal: func(_ int, text string) error {
				u, err := urls.Parse(text)
				if err != nil {
					return err
				}
				_, err = u.Path()
				return err
			},
		},
	}
}

const (
	maxHost   = 253
	maxOrigin = maxHost + 64
	hostLen   = 50 // the length at which an entry of a list is taken when the cost is reckoned
)

func ofURL[T any](f func(urls.URL) (T, error)) cel.OverloadOpt {
	return ofText(func(text string) (T, error) {
		u, err := urls.Parse(text)
		if err != nil {
			var none T
			return none, err
		}
		return f(u)
	})
}

func urlPort(u urls.URL) (int, error) {
	if u.Port == 0 {
		return 0, &urls.Error{Msg: "names no port and its scheme has none"}
	}
	return u.Port, nil
}

func hostIn(text string, list []string) (bool, error) {
	hosts, err := urls.ParseHosts(list)
	u, err2 := urls.Parse(text)
	if err := errors.Join(err, err2); err != nil {
		return false, err
	}
	return hosts.Has(u), nil
}

func urlWithin(text, base string) (bool, error) {
	b, err := urls.Parse(base)
	if err != nil {
		return false, err
	}
	u, err := urls.Parse(text)
	if err != nil {
		return false, err
	}
	return u.Within(b)
}
