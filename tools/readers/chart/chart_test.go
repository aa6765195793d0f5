package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const folder = "../../../deploy/helm/powerbox"

const values = `
server: {config: "listen: 0.0.0.0:8700\n", files: {policies.cedar: "permit(principal, action, resource);\n"}, tlsSecret: server-tls}
gateway: {enabled: true, server: "https://powerbox.example.org", tokenSecret: tokens, tlsSecret: gateway-tls}
`

func read(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestHelmLintsTheChart(t *testing.T) {
	for _, m := range lint.AllWithKubeVersion(folder, read(t), "default", nil).Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}

func TestHelmRendersTheChart(t *testing.T) {
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, read(t), chartutil.ReleaseOptions{Name: "powerbox", Namespace: "default", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for name, text := range files {
		for document := range strings.SplitSeq(text, "\n---") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Errorf("%s: %v\n%s", name, err, document)
			}
			if kind, ok := object["kind"].(string); ok {
				kinds[kind]++
			}
		}
	}
	if kinds["StatefulSet"] != 2 || kinds["Service"] != 2 || kinds["ConfigMap"] != 1 {
		t.Errorf("it renders %v", kinds)
	}
}

// The chart is released with the program.
func TestTheChartHasTheVersionOfTheProgram(t *testing.T) {
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join("..", "..", "..", "internal", "version", "version.go"))
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`(?m)^const Number = "(.*)"$`).FindSubmatch(source)
	if number == nil || c.Metadata.AppVersion != string(number[1]) || c.Metadata.Version != string(number[1]) {
		t.Errorf("the chart is version %s of %s; the program is %s", c.Metadata.Version, c.Metadata.AppVersion, number)
	}
}
