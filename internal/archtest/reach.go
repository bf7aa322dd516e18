package archtest

import "slices"

// Graph maps each package, by import path, to the packages that its code imports, without
// tests.
type Graph map[string][]string

// Reach returns a shortest chain of imports from a package to one for which bad reports true,
// starting with the package itself, or nil if there is none.
func Reach(g Graph, from string, bad func(path string) bool) []string {
	by := map[string]string{from: ""}
	queue := []string{from}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		for _, next := range g[path] {
			if _, seen := by[next]; seen {
				continue
			}
			by[next] = path
			if bad(next) {
				return chain(by, next)
			}
			queue = append(queue, next)
		}
	}
	return nil
}

func chain(by map[string]string, last string) []string {
	var out []string
	for p := last; p != ""; p = by[p] {
		out = append(out, p)
	}
	slices.Reverse(out)
	return out
}
