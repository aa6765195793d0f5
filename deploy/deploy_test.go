// Package deploy has no code: its tests hold the files beside it to what they
// are for.
package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// binary is the program that the files run, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(programtest.Main("..", func(program string) int {
		binary = program
		return m.Run()
	}))
}

// documents are those of a YAML file, which must not name a key twice.
func documents(t *testing.T, name string, text []byte) []map[string]any {
	t.Helper()
	var all []map[string]any
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var one map[string]any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if one != nil {
			all = append(all, one)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// chart renders the templates of the chart with the functions of Helm that they
// use, and no others.
func chart(t *testing.T, values string) (map[string]any, []map[string]any, error) {
	t.Helper()
	given := map[string]any{}
	if err := yaml.Unmarshal(read(t, "helm/powerbox/values.yaml"), &given); err != nil {
		t.Fatal(err)
	}
	var set map[string]any
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		t.Fatal(err)
	}
	merge(given, set)
	root := template.New("").Option("missingkey=error")
	root.Funcs(template.FuncMap{
		"int":    func(v any) (n int, err error) { _, err = fmt.Sscan(fmt.Sprint(v), &n); return n, err },
		"quote":  func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"toJson": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"nindent": func(n int, text string) string {
			pad := "\n" + strings.Repeat(" ", n)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
		"required": func(message string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, errors.New(message)
			}
			return v, nil
		},
		"include": func(name string, data any) (string, error) {
			var b bytes.Buffer
			err := root.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
	})
	names, err := filepath.Glob("helm/powerbox/templates/*")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.ParseFiles(names...); err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for _, name := range []string{"server.yaml", "gateway.yaml"} {
		var b bytes.Buffer
		if err := root.ExecuteTemplate(&b, name, map[string]any{"Values": given, "Release": map[string]any{"Name": "pb"}}); err != nil {
			return nil, nil, err
		}
		all = append(all, documents(t, name, b.Bytes())...)
	}
	return given, all, nil
}

func merge(into, from map[string]any) {
	for name, v := range from {
		inner, ok := v.(map[string]any)
		if at, is := into[name].(map[string]any); ok && is {
			merge(at, inner)
			continue
		}
		into[name] = v
	}
}

// at is what stands at a path, of names and of places in lists.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

const rendered = `
server: {config: "listen: 0.0.0.0:8700\n", files: {policies.cedar: "permit(principal, action, resource);\n"}, tlsSecret: server-tls, storage: {className: fast}}
gateway: {enabled: true, server: "https://powerbox.example.org", tokenSecret: tokens, tlsSecret: gateway-tls, feeds: ["https://relay-1:8702", "https://relay-2:8702"], feedSecret: feed, trustedProxies: [10.0.0.0/8, 192.0.2.7]}
`

// The chart renders to objects whose pods run as an unprivileged user, on a
// read-only root, with flags that the program has. It names missing values.
func TestChart(t *testing.T) {
	_, all, err := chart(t, rendered)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range all {
		kinds = append(kinds, fmt.Sprint(o["kind"]))
		if o["kind"] != "StatefulSet" {
			continue
		}
		pod := at(o, "spec", "template", "spec")
		if at(pod, "securityContext", "runAsNonRoot") != true || at(pod, "automountServiceAccountToken") != false {
			t.Errorf("the pod of %v may be root, or has a token of the cluster: %v", at(o, "metadata", "name"), at(pod, "securityContext"))
		}
		for _, of := range []string{"initContainers", "containers"} {
			list, _ := at(pod, of).([]any)
			for _, c := range list {
				s := at(c, "securityContext")
				if at(s, "readOnlyRootFilesystem") != true || at(s, "allowPrivilegeEscalation") != false || fmt.Sprint(at(s, "capabilities", "drop")) != "[ALL]" {
					t.Errorf("container %v is not hardened: %v", at(c, "name"), s)
				}
				args, _ := at(c, "args").([]any)
				flags(t, fmt.Sprint(at(o, "metadata", "name")), texts(args))
			}
		}
		if at(o, "spec", "volumeClaimTemplates", 0, "spec", "resources", "requests", "storage") == nil {
			t.Errorf("%v keeps nothing", at(o, "metadata", "name"))
		}
	}
	slices.Sort(kinds)
	if got := strings.Join(kinds, " "); got != "ConfigMap PodDisruptionBudget Service Service StatefulSet StatefulSet" {
		t.Errorf("it renders %s", got)
	}
	for want, values := range map[string]string{
		"server.config is missing":       `server: {tlsSecret: x}`,
		"server.tlsSecret is missing":    `server: {config: x}`,
		"gateway.server is missing":      `{server: {enabled: false}, gateway: {enabled: true}}`,
		"gateway.tokenSecret is missing": `{server: {enabled: false}, gateway: {enabled: true, server: x}}`,
		"gateway.feedSecret is missing":  `{server: {enabled: false}, gateway: {enabled: true, server: x, tokenSecret: x, tlsSecret: x, feeds: [x]}}`,
	} {
		if _, _, err := chart(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", values, err, want)
		}
	}
	if _, none, err := chart(t, `server: {enabled: false}`); err != nil || len(none) != 0 {
		t.Errorf("nothing enabled renders %v, %v", none, err)
	}
}

// Several pods share a database and keys, and keep nothing of their own.
func TestChartOnPostgres(t *testing.T) {
	const several = `server: {config: "listen: 0.0.0.0:8700\n", tlsSecret: server-tls, replicas: 3, databaseSecret: db, keysSecret: keys}`
	_, all, err := chart(t, several)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]any{}
	for _, o := range all {
		kinds[fmt.Sprint(o["kind"])] = o
	}
	set := kinds["StatefulSet"]
	pod := at(set, "spec", "template", "spec")
	if at(set, "spec", "replicas") != 3 || at(set, "spec", "volumeClaimTemplates") != nil || at(kinds["PodDisruptionBudget"], "spec", "maxUnavailable") != 1 {
		t.Errorf("it renders %v", all)
	}
	mounted := map[string]bool{}
	volumes, _ := at(pod, "volumes").([]any)
	for _, v := range volumes {
		mounted[fmt.Sprint(at(v, "name"))] = true
	}
	var names []string
	for _, of := range []string{"initContainers", "containers"} {
		list, _ := at(pod, of).([]any)
		for _, c := range list {
			names = append(names, fmt.Sprint(at(c, "name")))
			args, _ := at(c, "args").([]any)
			flags(t, "chart", texts(args))
			mounts, _ := at(c, "volumeMounts").([]any)
			for _, m := range mounts {
				if !mounted[fmt.Sprint(at(m, "name"))] {
					t.Errorf("%v mounts %v, which is no volume", at(c, "name"), at(m, "name"))
				}
			}
			if name := at(c, "name"); name != "keys" && at(c, "env", 0, "name") != "POWERBOX_STORE_POSTGRES_FILE" {
				t.Errorf("%v does not know the database", name)
			}
		}
	}
	if got := strings.Join(names, " "); got != "keys migrate powerbox" {
		t.Errorf("it runs %s", got)
	}
	for want, values := range map[string]string{
		"server.databaseSecret is missing": `server: {config: x, tlsSecret: x, replicas: 2}`,
		"server.keysSecret is missing":     `server: {config: x, tlsSecret: x, replicas: 2, databaseSecret: x}`,
	} {
		if _, _, err := chart(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", values, err, want)
		}
	}
}

func texts(list []any) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return out
}

// help is what the program says of a verb.
var helps = map[string]string{}

func help(t *testing.T, verb ...string) string {
	t.Helper()
	name := strings.Join(verb, " ")
	if helps[name] == "" {
		out, err := exec.CommandContext(t.Context(), binary, append(slices.Clone(verb), "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		helps[name] = string(out)
	}
	return helps[name]
}

// flags holds a command line to the flags that its verb has.
func flags(t *testing.T, where string, args []string) {
	t.Helper()
	var verb []string
	if len(args) > 0 && !slices.Contains([]string{"gateway", "keys", "migrate"}, args[0]) {
		verb, args = args[:1:1], args[1:] // no verb below it
	}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && len(verb) < 2 {
		verb, args = append(verb, args[0]), args[1:]
	}
	text := help(t, verb...)
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			continue
		}
		name, _, _ := strings.Cut(a, "=")
		if !regexp.MustCompile(`(?m)(^|[ ,])` + regexp.QuoteMeta(name) + `([ ,]|$)`).MatchString(text) {
			t.Errorf("%s: powerbox %s has no %s", where, strings.Join(verb, " "), name)
		}
	}
}

// The composition runs everything as an unprivileged user, on a read-only root,
// with flags that the program has and secrets that are declared.
func TestCompose(t *testing.T) {
	all := documents(t, "compose.yaml", read(t, "compose.yaml"))
	services, _ := at(all[0], "services").(map[string]any)
	if len(services) != 4 {
		t.Errorf("%d services", len(services))
	}
	for name, s := range services {
		if at(s, "read_only") != true || fmt.Sprint(at(s, "cap_drop")) != "[ALL]" || fmt.Sprint(at(s, "security_opt")) != "[no-new-privileges:true]" || at(s, "user") != "65532:65532" {
			t.Errorf("%s is not hardened", name)
		}
		command, _ := at(s, "command").([]any)
		flags(t, name, texts(command))
		secrets, _ := at(s, "secrets").([]any)
		for _, one := range texts(secrets) {
			if at(all[0], "secrets", one) == nil {
				t.Errorf("%s: no secret %s", name, one)
			}
		}
		for _, a := range texts(command) {
			if file, ok := strings.CutPrefix(a, "/run/secrets/"); ok && !slices.Contains(texts(secrets), file) {
				t.Errorf("%s reads %s, which it is not given", name, file)
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), binary, "config", "check", "-c", "compose/powerbox.yaml").CombinedOutput()
	if err != nil {
		t.Errorf("its configuration: %v\n%s", err, out)
	}
}

// The nodes on PostgreSQL are as hardened as the one server, with secrets that are
// declared in one of the two files, and networks that lead where they are sent.
func TestComposeOnPostgres(t *testing.T) {
	base := documents(t, "compose.yaml", read(t, "compose.yaml"))[0]
	over := documents(t, "compose.postgres.yaml", read(t, "compose.postgres.yaml"))[0]
	services, _ := at(over, "services").(map[string]any)
	if len(services) != 6 {
		t.Errorf("%d services", len(services))
	}
	for name, s := range services {
		of := func(key string) any {
			if v := at(s, key); v != nil {
				return v
			}
			return at(base, "services", name, key)
		}
		if of("read_only") != true || fmt.Sprint(of("cap_drop")) != "[ALL]" || fmt.Sprint(of("security_opt")) != "[no-new-privileges:true]" || of("user") == nil {
			t.Errorf("%s is not hardened", name)
		}
		list, _ := at(s, "secrets").([]any)
		for _, one := range texts(list) {
			if at(base, "secrets", one) == nil && at(over, "secrets", one) == nil {
				t.Errorf("%s: no secret %s", name, one)
			}
		}
		text := fmt.Sprint(at(s, "command"), at(s, "environment"))
		for _, file := range regexp.MustCompile(`/run/secrets/([a-z.-]+)`).FindAllStringSubmatch(text, -1) {
			if !slices.Contains(texts(list), file[1]) {
				t.Errorf("%s reads %s, which it is not given", name, file[1])
			}
		}
		command, _ := at(s, "command").([]any)
		if of("image") == "powerbox" {
			flags(t, name, texts(command))
		}
		mounts, _ := at(s, "volumes").([]any)
		for _, m := range texts(mounts) {
			from, _, _ := strings.Cut(m, ":")
			if file, ours := strings.CutPrefix(from, "./"); ours {
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, declared := at(base, "volumes").(map[string]any)[from]; !declared && !strings.Contains(fmt.Sprint(at(over, "volumes")), from) {
				t.Errorf("%s: no volume %s", name, from)
			}
		}
	}
	balancer := string(read(t, "compose/haproxy.cfg"))
	for _, node := range []string{"server", "another"} {
		if services[node] == nil || !strings.Contains(balancer, node+":8700") {
			t.Errorf("the balancer does not lead to %s", node)
		}
	}
	// Nodes believe the balancer, and nothing else that is in their network (ATK-66).
	told := fmt.Sprint(at(services["balancer"], "networks", "front", "ipv4_address"))
	if text := string(read(t, "compose/powerbox.yaml")); !strings.Contains(text, "proxies: {trusted: ["+told+"], address: proxy-protocol}") || strings.Count(balancer, "send-proxy-v2 check check-send-proxy") != 1 {
		t.Errorf("ATK-66: the nodes do not believe the balancer at %s, or it does not name its clients", told)
	}
	if free, err := netip.ParsePrefix(fmt.Sprint(at(base, "networks", "front", "ipam", "config", 0, "ip_range"))); err != nil || free.Contains(netip.MustParseAddr(told)) {
		t.Errorf("ATK-66: another container can get %s: %v", told, err)
	}
	for _, script := range []string{"compose/follow.sh", "compose/replication.sh"} {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// The images have no shell, no root and nothing of the working tree but their program.
func TestDockerfile(t *testing.T) {
	text := string(read(t, "Dockerfile"))
	stages := strings.Split(text, "\nFROM ")[1:]
	module := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(read(t, "../go.mod")))[1]
	if len(stages) != 3 || !strings.HasPrefix(stages[0], "golang:"+module) {
		t.Fatalf("it is built in %d stages, the first from %.40q; want three, and Go %s", len(stages), stages[0], module)
	}
	for _, image := range stages[1:] {
		from, _, _ := strings.Cut(image, "\n")
		from, _, _ = strings.Cut(from, " ")
		if !strings.HasSuffix(from, ":nonroot") || !strings.Contains(image, "\nUSER 65532:65532\n") || strings.Contains(image, "\nRUN ") || strings.Contains(image, "COPY . ") {
			t.Errorf("this stage is not nobody's:\n%s", image)
		}
	}
	// Building for a machine without cgo takes minutes where nothing of it is cached:
	// what would be done is enough.
	build := regexp.MustCompile(`go build [^\\\n]*`).FindString(text)
	args := strings.Fields(strings.NewReplacer("go build ", "go build -n ", `"`, "", "-s -w", "-s", "/out/", t.TempDir()+string(filepath.Separator), "./cmd", "../cmd").Replace(build))
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}

// Units have the same hardening, and flags that the program has.
func TestUnits(t *testing.T) {
	names, err := filepath.Glob("systemd/*.service")
	if err != nil || len(names) != 3 {
		t.Fatalf("%v %v", names, err)
	}
	for _, name := range names {
		text := string(read(t, name))
		for _, want := range []string{
			"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n", "SystemCallFilter=@system-service", "MemoryDenyWriteExecute=yes",
			"PrivateDevices=yes", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "UMask=0077",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/powerbox (.*)$`).FindStringSubmatch(text)
		if line == nil {
			t.Errorf("%s starts nothing", name)
			continue
		}
		flags(t, name, strings.Fields(line[1]))
	}
}

// Every alert that names a page names one that is there.
func TestAlerts(t *testing.T) {
	groups := documents(t, "alerts.yaml", read(t, "prometheus/alerts.yaml"))
	runbook := string(read(t, "../docs/how-to/runbook.md"))
	rules, _ := at(groups[0], "groups", 0, "rules").([]any)
	if len(rules) < 10 {
		t.Errorf("%d alerts", len(rules))
	}
	for _, r := range rules {
		name := fmt.Sprint(at(r, "alert"))
		if at(r, "expr") == nil || at(r, "annotations", "summary") == nil || at(r, "labels", "severity") == nil {
			t.Errorf("%s lacks an expression, a summary or a severity", name)
		}
		if page := at(r, "annotations", "runbook"); page != nil {
			_, anchor, _ := strings.Cut(fmt.Sprint(page), "docs/how-to/runbook.md#")
			heading := regexp.MustCompile(`(?mi)^## ` + strings.ReplaceAll(anchor, "-", "[ -]") + `$`)
			if !heading.MatchString(runbook) {
				t.Errorf("%s: %s has no such part", name, page)
			}
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "grafana/powerbox.json"), &dashboard); err != nil || len(dashboard.Panels) < 10 {
		t.Errorf("%v, %d panels", err, len(dashboard.Panels))
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 || p.Targets[0].Expr == "" {
			t.Errorf("a panel shows nothing: %+v", p)
		}
	}
}
