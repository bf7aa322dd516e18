package permission

import (
	"runtime"
	"sync"
	"sync/atomic"

	"cel.dev/cel-go/cel"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// parallelFrom is the number of expressions from which on they are compiled by
// several goroutines. Compiling them is most of the time of loading a policy.
const parallelFrom = 64

// exprKey is all on which the outcome of compiling an expression depends within
// one policy. Rules that say the same share a program.
type exprKey struct {
	env  *cel.Env
	text string
	want *cel.Type
}

type compiledExpr struct {
	program *celrule.Program
	faults  []celrule.Fault
}

// exprJob is an expression to compile.
type exprJob struct {
	exprKey
	args *schema.Type
	done compiledExpr
	ok   bool
}

// precompile compiles the expressions of many rules on all processors. Those
// that it leaves out are compiled one by one when their rule is added.
func (c *compiler) precompile(rules []Rule) {
	var jobs []*exprJob
	seen := map[exprKey]bool{}
	for i := range rules {
		r := &rules[i]
		for _, name := range r.Tools {
			var tool *Tool
			if tr := c.bundle.byTool[name]; tr != nil {
				tool = tr.tool
			}
			env, err := c.envOf(tool)
			if err != nil {
				continue // reported when the rule is added
			}
			for _, key := range []exprKey{{env, r.When, cel.BoolType}, {env, r.Message, cel.StringType}} {
				if key.text == "" || seen[key] {
					continue
				}
				seen[key] = true
				jobs = append(jobs, &exprJob{exprKey: key, args: argsOf(tool)})
			}
		}
	}
	if len(jobs) < parallelFrom {
		return
	}
	c.compileAll(jobs)
}

func (c *compiler) compileAll(jobs []*exprJob) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(jobs); i = next.Add(1) - 1 {
				j := jobs[i]
				var err error
				j.done, err = callSafely(func() (compiledExpr, error) {
					p, faults := celrule.Compile(j.env, j.text, j.want, j.args, c.bundle.limits.expressions(false))
					return compiledExpr{p, faults}, nil
				})
				j.ok = err == nil
			}
		})
	}
	wg.Wait()
	c.compiled = make(map[exprKey]compiledExpr, len(jobs))
	for _, j := range jobs {
		if j.ok {
			c.compiled[j.exprKey] = j.done
		}
	}
}

func argsOf(t *Tool) *schema.Type {
	return schemaOf(t).root()
}
