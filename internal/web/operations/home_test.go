package operations

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// answers serves the operators' interface from values by path, with or without its query, and keeps what it was asked.
type answers struct {
	of    map[string]any
	asked []string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = append(a.asked, r.URL.RequestURI())
	body, ok := a.of[r.URL.RequestURI()]
	if !ok {
		body, ok = a.of[r.URL.Path]
	}
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

// visit opens a page of the interface.
func (a *answers) visit(t *testing.T, path string, page func(*Pages, *Visit) (Answer, error)) (Answer, error) {
	t.Helper()
	p, err := New(Config{V1: func(string, people.Rights) http.Handler { return a }, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return page(p, p.Visit(httptest.NewRequest(http.MethodGet, path, nil), "user:carol", people.AllRights(), lang.English))
}

// TestHomeNamesWhatNeedsALook shows agents that do not answer, gateways that are silent or
// behind, and each witness with the age of its last cosignature.
func TestHomeNamesWhatNeedsALook(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := noon.Add(-d); return &at }
	v1 := &answers{of: map[string]any{
		"/v1/summary":                            api.ActivityReport{Head: api.LogHead{Size: 100}, Served: api.AgentCounts{All: 2, Unreachable: 1}},
		"/v1/freezes":                            []api.FreezeStatus{},
		"/v1/agents":                             []api.AgentStatus{{ID: "mail"}, {ID: "files"}},
		"/v1/agents?health=unreachable&limit=50": []api.AgentStatus{{ID: "mail", Health: api.AgentHealth{State: "unreachable", Since: ago(time.Hour), Why: "connection refused"}}},
		"/v1/gateways":                           []api.GatewayStatus{{ID: "gw_1", Agent: "mail", Heard: &api.GatewayHeard{At: noon, Behind: 2}}, {ID: "gw_2", Agent: "files", Heard: &api.GatewayHeard{At: noon}}, {ID: "gw_3", Agent: "files"}},
		"/v1/webhooks":                           api.Webhooks{}, "/v1/evidence/witnesses": []api.WitnessStatus{
			{Name: "w1", Size: 100, At: ago(90 * time.Second)}, {Name: "w2", Size: 97, At: ago(3 * time.Hour), Why: "refused"}, {Name: "w3"},
		},
	}}
	answer, err := v1.visit(t, "/admin", (*Pages).home)
	if err != nil {
		t.Fatal(err)
	}
	page := answer.Body.(homePage)
	if len(page.Down) != 1 || page.Down[0].ID != "mail" || !page.Down[0].Health.Since.Equal(noon.Add(-time.Hour)) {
		t.Errorf("agents that do not answer: %+v", page.Down)
	}
	var says []string
	for _, w := range page.Witness {
		says = append(says, w.Name+" "+w.Says)
		if w.Late != (w.Name != "w1") {
			t.Errorf("%s needs a look: %t", w.Name, w.Late)
		}
	}
	for _, g := range page.Gateways {
		says = append(says, g.ID+" "+g.Says)
	}
	want := "w1 cosigned everything, 1 min ago|w2 cosigned 3 h ago, without the last 3 records|w3 has cosigned nothing since the server started|" +
		"gw_1 has not enforced the last 2 revocations|gw_3 has not reported since the server started, or for an hour"
	if got := strings.Join(says, "|"); got != want {
		t.Errorf("the page says\n%s\nwant\n%s", got, want)
	}
}

// TestHomeNamesMessagesThatWereNotDelivered sums up all channels and names the latest failure.
func TestHomeNamesMessagesThatWereNotDelivered(t *testing.T) {
	v1 := &answers{of: map[string]any{
		"/v1/summary": api.ActivityReport{}, "/v1/freezes": []api.FreezeStatus{}, "/v1/agents": []api.AgentStatus{}, "/v1/gateways": []api.GatewayStatus{}, "/v1/evidence/witnesses": []api.WitnessStatus{},
		"/v1/webhooks": api.Webhooks{
			Webhooks: []api.Webhook{{Name: "slack", Dead: 2}, {Name: "mail", Waiting: 3, Dead: 1}},
			Dead:     []api.WebhookMessage{{ID: "m2", Webhook: "mail", Why: "no route to the server", Died: noon}, {ID: "m1", Webhook: "slack"}},
		},
	}}
	answer, err := v1.visit(t, "/admin", (*Pages).home)
	if err != nil {
		t.Fatal(err)
	}
	if u := answer.Body.(homePage).Undelivered; u.Failed != 3 || u.Trying != 3 || u.Latest == nil || u.Latest.ID != "m2" {
		t.Errorf("the page says %+v; want 3 that failed, 3 that are tried and m2", u)
	}
}

// TestHomeIsBounded shows some of many agents, those with denials first.
func TestHomeIsBounded(t *testing.T) {
	all := make([]api.AgentStatus, homeAgents+7)
	for i := range all {
		all[i].ID = string(rune('a' + i))
	}
	first, last := all[0].ID, all[len(all)-1].ID
	v1 := &answers{of: map[string]any{
		"/v1/summary": api.ActivityReport{
			Agents: []api.AgentActivity{{Agent: first, Allowed: 2}, {Agent: "gone", Allowed: 3}, {Agent: last, Denied: 1}}, Served: api.AgentCounts{All: len(all)},
		},
		"/v1/freezes": []api.FreezeStatus{}, "/v1/agents?first=" + url.QueryEscape(last) + "&first=gone&first=" + first + "&limit=50": append([]api.AgentStatus{all[len(all)-1]}, all[:homeAgents-1]...), "/v1/gateways": []api.GatewayStatus{}, "/v1/webhooks": api.Webhooks{}, "/v1/evidence/witnesses": []api.WitnessStatus{},
	}}
	answer, err := v1.visit(t, "/admin", (*Pages).home)
	if err != nil {
		t.Fatal(err)
	}
	page := answer.Body.(homePage)
	if len(page.Agents) != homeAgents || page.More != 7 || page.Agents[0].ID != last || page.Agents[1].ID != first || page.Agents[2].ID != all[1].ID {
		t.Errorf("%d agents are shown, %d more, first %+v", len(page.Agents), page.More, page.Agents[:3])
	}
}

// TestGraphOfATime asks for the graph of a time, keeps the time in every link, and refuses a
// text that is no time.
func TestGraphOfATime(t *testing.T) {
	first, until := noon.Add(-48*time.Hour), noon.Add(-24*time.Hour+5*time.Minute)
	v1 := &answers{of: map[string]any{"/v1/graph": api.GraphReport{
		Agents: []api.GraphAgent{{Radius: graph.Radius{Agent: "desk"}}, {Radius: graph.Radius{Agent: "mail"}}}, Edges: []api.GraphEdge{{From: "desk", To: "mail", Given: 2}}, First: &first, Until: &until, Step: 300,
	}}}
	answer, err := v1.visit(t, "/admin/graph?agent=desk&hops=1&until=2026-01-01T12:00", (*Pages).graph)
	if err != nil {
		t.Fatal(err)
	}
	page := answer.Body.(graphPage)
	if want := "/v1/graph?agent=desk&until=2026-01-01T12%3A00%3A00Z"; len(v1.asked) != 1 || v1.asked[0] != want {
		t.Errorf("the page asks %q; want %s", v1.asked, want)
	}
	for what, link := range map[string]string{"an edge": page.Edges[0].Link, "a number of hops": page.Choices[0].Link, "a box": page.Picture.Boxes[0].Link} {
		if !strings.Contains(link, "until=2026-01-01T12%3A00") {
			t.Errorf("the link of %s loses the time: %s", what, link)
		}
	}
	if link := page.Now(); strings.Contains(link, "until") || !strings.Contains(link, "agent=desk") {
		t.Errorf("the link to now is %s", link)
	}
	if s := page.Then; s.First != first.Unix() || s.Last != noon.Unix() || s.At != until.Unix()-1 || page.Edges[0].State != "granted" {
		t.Errorf("the slider is %+v, and the edge %s", s, page.Edges[0].State)
	}
	if _, err := v1.visit(t, "/admin/graph?until=soon", (*Pages).graph); err == nil || !strings.Contains(err.Error(), `"soon" is no time`) {
		t.Errorf("a text that is no time: %v", err)
	}
}

// TestSettingsShowTheAgeOfKeys lists the issuing keys, the oldest first.
func TestSettingsShowTheAgeOfKeys(t *testing.T) {
	key := func(id string, age time.Duration) *api.IssuingKey {
		return &api.IssuingKey{ID: id, Made: noon.Add(-age)}
	}
	v1 := &answers{of: map[string]any{
		"/v1/summary": api.ActivityReport{}, "/v1/gateways": []api.GatewayStatus{}, "/v1/evidence/trust": evidence.Trust{}, "/v1/sessions": api.OpenSessions{},
		"/v1/agents": []api.AgentStatus{{ID: "mail", Key: key("young", time.Hour)}, {ID: "apart"}, {ID: "files", Key: key("old", 90*24*time.Hour)}},
	}}
	answer, err := v1.visit(t, "/admin/settings", (*Pages).settings)
	if err != nil {
		t.Fatal(err)
	}
	var says []string
	for _, k := range answer.Body.(settingsPage).Issuing {
		says = append(says, k.Agent+" "+k.ID+" "+k.Age)
	}
	if got, want := strings.Join(says, ", "), "files old 90 days, mail young 1 h"; got != want {
		t.Errorf("issuing keys: %s; want %s", got, want)
	}
}

// TestAdvisorReadsTheLogOnce asks for the records of the agent and for those that it asked for,
// however many capabilities are in force.
func TestAdvisorReadsTheLogOnce(t *testing.T) {
	held := make([]api.CapabilityStatus, recertified)
	for i := range held {
		held[i].ID, held[i].Agent = "cap_"+strconv.Itoa(i), "mail"
	}
	v1 := &answers{of: map[string]any{"/v1/agents": []api.AgentStatus{{ID: "mail"}}, "/v1/records": []any{}, "/v1/capabilities": held}}
	answer, err := v1.visit(t, "/admin/advisor?agent=mail", (*Pages).advisor)
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	for _, path := range v1.asked {
		if strings.HasPrefix(path, "/v1/records?") {
			reads++
		}
	}
	if page := answer.Body.(advisorPage); reads != 2 || len(page.Held) != recertified || !page.Held[0].Stale() {
		t.Errorf("%d reads of the log for %d capabilities, the first unused: %t", reads, len(page.Held), page.Held[0].Stale())
	}
}
