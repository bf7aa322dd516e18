// Package check reads the files of deploy with the parsers of those who will read them:
// the expressions of alerts and dashboards with Prometheus, the manifests with the types
// of Kubernetes. It is a module of its own, so that the command links neither.
package check

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t *testing.T, where, expr string) {
	t.Helper()
	expr = strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$tool", "pay").Replace(expr)
	if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
	}
}

func TestAlerts(t *testing.T) {
	groups, errs := rulefmt.Parse(read(t, "../../prometheus/alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			parse(t, r.Alert, r.Expr)
			if r.Annotations["summary"] == "" || r.Annotations["action"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s says not what happens, what to do, or how bad it is", r.Alert)
			}
		}
	}
}

func TestDashboard(t *testing.T) {
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Name, Expr string } }
	}
	if err := json.Unmarshal(read(t, "../../grafana/askance.json"), &d); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			parse(t, p.Title, q.Expr)
			n++
		}
	}
	for _, a := range d.Annotations.List {
		parse(t, a.Name, a.Expr)
	}
	if n < 15 {
		t.Errorf("the dashboard has %d expressions", n)
	}
}

// Members that Kubernetes does not know are an error, and the pods are as the restricted
// profile wants them.
func TestKubernetes(t *testing.T) {
	kinds := map[string]func() any{
		"Namespace": func() any { return &corev1.Namespace{} }, "ConfigMap": func() any { return &corev1.ConfigMap{} }, "Service": func() any { return &corev1.Service{} },
		"Deployment": func() any { return &appsv1.Deployment{} }, "PodDisruptionBudget": func() any { return &policyv1.PodDisruptionBudget{} },
		"NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
	}
	text := append(append(read(t, "../../kubernetes/namespace.yaml"), []byte("---\n")...), read(t, "../../kubernetes/deployment.yaml")...)
	for _, f := range []string{"../../kubernetes/service.yaml", "../../kubernetes/policies.yaml"} {
		text = append(append(text, []byte("---\n")...), read(t, f)...)
	}
	if path, err := exec.LookPath("kubectl"); err == nil { // then as it is applied
		cmd := exec.CommandContext(t.Context(), path, "kustomize", "../../kubernetes")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if text, err = cmd.Output(); err != nil {
			t.Fatalf("kubectl kustomize: %v\n%s", err, stderr.String())
		}
	}
	seen := map[string]int{}
	for _, doc := range regexp.MustCompile(`(?m)^---$`).Split(string(text), -1) {
		var m metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
			t.Fatal(err)
		}
		if kinds[m.Kind] == nil {
			t.Fatalf("no type for %q", m.Kind)
		}
		into := kinds[m.Kind]()
		if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
			t.Errorf("%s: %v", m.Kind, err)
		}
		seen[m.Kind]++
		d, is := into.(*appsv1.Deployment)
		if !is {
			continue
		}
		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || *pod.AutomountServiceAccountToken || c.ReadinessProbe == nil || c.LivenessProbe == nil {
			t.Error("the pod lacks a part of its hardening or a probe")
		}
	}
	for kind := range kinds {
		if kind != "ConfigMap" && seen[kind] != 1 {
			t.Errorf("%d of kind %s", seen[kind], kind)
		}
	}
}
