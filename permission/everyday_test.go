package permission_test

import (
	"testing"

	"github.com/askance-dev/askance/permission"
)

// TestEverydayConditions: usual conditions about texts and lists of usual sizes are not refused
// because of their possible cost.
func TestEverydayConditions(t *testing.T) {
	schema, err := permission.CompileSchema([]byte(`{"type": "object", "required": ["body", "sql", "columns", "to"], "properties": {
		"body": {"type": "string", "maxLength": 20000}, "sql": {"type": "string", "maxLength": 8000},
		"columns": {"type": "array", "maxItems": 200, "items": {"type": "string", "maxLength": 64}},
		"to": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 254}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	opts := permission.Options{Tools: []permission.Tool{{Name: "t", Schema: schema}}}
	for _, when := range []string{
		`size(args.to) > 0 && args.to.all(a, a.lowerAscii().endsWith("@example.com") || a.lowerAscii().endsWith("@example.org"))`,
		`size(args.to) > 0 && args.to.all(a, a.split("@").size() == 2 && a.split("@")[1] in ["example.com", "example.org"])`,
		`args.body.lowerAscii().contains("password") || args.body.contains("BEGIN PRIVATE KEY")`,
		`args.body.trim() == "" || args.body.replace(" ", "").startsWith("!")`,
		`args.sql.lowerAscii().contains(" insert ") || args.sql.lowerAscii().contains(" update ") || args.sql.lowerAscii().contains(" delete ")`,
		`args.columns.exists(c, c.lowerAscii() in ["email", "ssn", "phone", "birth_date"])`,
		`args.columns.filter(c, c in ["email", "ssn", "phone", "birth_date"]).join(", ") != ""`,
	} {
		file := permission.File{Name: "x.yaml", Data: []byte("version: 1\nname: x\nrules:\n  - name: r\n    tool: t\n    behavior: ask\n    when: |\n      " + when + "\n")}
		if _, err := permission.Load([]permission.File{file}, opts); err != nil {
			t.Error(err)
		}
	}
	dear := permission.File{Name: "x.yaml", Data: []byte("version: 1\nname: x\nrules:\n  - name: r\n    tool: t\n    behavior: ask\n    when: args.to.exists(a, args.columns.exists(c, a == c))\n")}
	if _, err := permission.Load([]permission.File{dear}, opts); err == nil {
		t.Error("a loop within a loop over ten thousand pairs loads")
	}
}
