package operations

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/handoff"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// graphPage is who may hand what to whom.
type graphPage struct {
	Agent     string // in focus, "" for none
	Hops      int    // shown around it, 0 for all
	Without   string // the edge that is thought away, as FROM,TO; "" for none
	From      string // its ends
	To        string
	Agents    []string // that the form proposes
	Choices   []choice // of hops
	Picture   *picture
	Wrong     string // why there is no picture
	Edges     []edgeRow
	Radii     []graph.Radius
	MoreRadii int // that the table does not show
	Reached   []reachedRow
	Open      []string // agents that calls reach without a capability
	Cycles    [][]string
	Changes   []change // by the edge that is thought away
	Back      string   // the page with the edge
	Cut       int      // edges that the table does not show
	Then      asOf     // up to when records count
}

// asOf is the time up to which a graph counts records.
type asOf struct {
	Asked       string     // as in the URL, "" for now
	Until       *time.Time // the end of its step, nil for now
	First, Last int64      // of the slider, in Unix seconds; 0 where nothing is on record
	At, Step    int64
	Behind      bool // the log is still being read
}

// of fills in the slider.
func (t *asOf) of(report api.GraphReport, now time.Time) {
	t.Until, t.Step, t.Behind = report.Until, report.Step, report.Behind
	if report.First == nil || now.Sub(*report.First) < time.Duration(report.Step)*time.Second {
		return // a slider would have one place
	}
	t.First, t.Last = report.First.Unix(), now.Unix()
	if t.At = t.Last; t.Until != nil {
		t.At = min(t.Last, t.Until.Unix()-1)
	}
}

// choice is one of the numbers of hops.
type choice struct {
	Link, Text string
	Current    bool
}

// reachedRow is an agent in reach, with whether a capability is needed there.
type reachedRow struct {
	graph.Reached

	Open bool
}

// edgeRow is an edge with its state in a word.
type edgeRow struct {
	api.GraphEdge
	State string // used, denied or granted
	Link  string // to the page without it
}

// change is the radius of an agent with an edge and without it.
type change struct{ Before, After graph.Radius }

// The bounds of the page.
const (
	maxDrawn = 120
	maxEdges = 300
	maxRadii = 100
	maxNamed = 100
)

func (p *Pages) graph(v *Visit) (Answer, error) {
	asked := v.URL.Query()
	page := graphPage{Agent: asked.Get("agent"), Without: asked.Get("without"), Then: asOf{Asked: strings.TrimSpace(asked.Get("until"))}}
	page.Hops, _ = strconv.Atoi(asked.Get("hops"))
	page.Hops = min(max(page.Hops, 0), 9)
	var report api.GraphReport
	path, err := page.path()
	if err != nil {
		return Answer{}, err
	}
	if err := v.API.Get(v.Context(), path, &report); err != nil {
		return Answer{}, err
	}
	if page.Without != "" {
		page.From, page.To, _ = strings.Cut(page.Without, ",")
		page.Back = page.link(page.Hops, "")
		var before api.GraphReport
		with := graphPage{Then: page.Then}
		if path, err = with.path(); err != nil {
			return Answer{}, err
		}
		if err := v.API.Get(v.Context(), path, &before); err != nil {
			return Answer{}, err
		}
		page.Changes = changes(before, report)
	}
	page.fill(v.Language, report)
	page.Then.of(report, p.config.Now())
	return Answer{Page: "graph", Title: v.T("Graph"), Body: page, Script: "graph.js"}, nil
}

// path is where the interface has the graph of the page.
func (page *graphPage) path() (string, error) {
	query := url.Values{}
	if page.Agent != "" {
		query.Set("agent", page.Agent)
	}
	if page.Without != "" {
		query.Set("without", page.Without)
	}
	if page.Then.Asked != "" {
		at, err := momentOf(page.Then.Asked)
		if err != nil {
			return "", err
		}
		query.Set("until", at.UTC().Format(time.RFC3339))
	}
	return "/v1/graph?" + query.Encode(), nil
}

// Now leads to this page as of now.
func (page graphPage) Now() string {
	page.Then = asOf{}
	return page.link(page.Hops, page.Without)
}

// link leads to this page with another number of hops, or without another edge.
func (page *graphPage) link(hops int, without string) string {
	query := url.Values{}
	if page.Agent != "" {
		query.Set("agent", page.Agent)
	}
	if hops > 0 {
		query.Set("hops", strconv.Itoa(hops))
	}
	if without != "" {
		query.Set("without", without)
	}
	if page.Then.Asked != "" {
		query.Set("until", page.Then.Asked)
	}
	return "/admin/graph?" + query.Encode()
}

func (page *graphPage) fill(l *lang.Language, report api.GraphReport) {
	for _, a := range report.Agents {
		page.Agents = append(page.Agents, a.Agent)
		page.Radii = append(page.Radii, a.Radius)
	}
	sorting.Stable(page.Radii, func(a, b graph.Radius) int {
		return cmp.Or(cmp.Compare(b.AmbientOperations, a.AmbientOperations), cmp.Compare(b.GatedOperations, a.GatedOperations), cmp.Compare(a.Agent, b.Agent))
	})
	page.MoreRadii = max(0, len(page.Radii)-maxRadii)
	page.Radii = page.Radii[:len(page.Radii)-page.MoreRadii]
	page.Agents = page.Agents[:min(len(page.Agents), maxNamed)]
	page.Cycles, page.Open = report.Cycles, report.Open
	if page.Agent != "" {
		for _, r := range report.Reach {
			page.Reached = append(page.Reached, reachedRow{r, slices.Contains(report.Open, r.Agent)})
		}
		for _, hops := range []int{1, 2, 3, 0} {
			text := l.T("all")
			if hops > 0 {
				text = l.N(hops, "%s hop", "%s hops")
			}
			page.Choices = append(page.Choices, choice{page.link(hops, page.Without), text, hops == page.Hops})
		}
	}
	near := within(report.Edges, page.Agent, page.Hops)
	for _, e := range report.Edges {
		if near == nil || near[e.From] && near[e.To] {
			page.Edges = append(page.Edges, edgeRow{e, stateOf(e), page.link(page.Hops, e.From+","+e.To)})
		}
	}
	page.draw(l, report.Reach)
	page.Cut = max(0, len(page.Edges)-maxEdges)
	page.Edges = page.Edges[:len(page.Edges)-page.Cut]
}

// stateOf says the state of an edge: calls along it were allowed, all were denied, or
// there were none.
func stateOf(e api.GraphEdge) string {
	switch {
	case e.Allowed > 0:
		return "used"
	case e.Denied > 0 || len(e.Granted) == 0 && e.Given == 0:
		return "denied"
	}
	return "granted"
}

// within are the agents that are so many hops from one, in both directions; nil for all.
func within(edges []api.GraphEdge, agent string, hops int) map[string]bool {
	if agent == "" || hops == 0 {
		return nil
	}
	near, edge := map[string]bool{agent: true}, []string{agent}
	beside := map[string][]string{}
	for _, e := range edges {
		beside[e.From], beside[e.To] = append(beside[e.From], e.To), append(beside[e.To], e.From)
	}
	for ; hops > 0; hops-- {
		var next []string
		for _, at := range edge {
			for _, to := range beside[at] {
				if !near[to] {
					near[to] = true
					next = append(next, to)
				}
			}
		}
		edge = next
	}
	return near
}

// changes are the radii that differ between two graphs.
func changes(before, after api.GraphReport) []change {
	then := map[string]graph.Radius{}
	for _, a := range after.Agents {
		then[a.Agent] = a.Radius
	}
	var out []change
	for _, a := range before.Agents {
		now := then[a.Agent]
		now.Agent = a.Agent // a caller without an edge is in no graph
		if now != a.Radius {
			out = append(out, change{a.Radius, now})
		}
	}
	return out
}

// picture is the drawing. It is made of elements and classes, without styles.
type picture struct {
	Width, Height int
	Boxes         []box
	Lines         []line
}

// box is an agent.
type box struct {
	X, Y, Width, Height int
	TextX, TextY        int
	ID, Text            string
	Class, Link, Title  string
}

// line is an edge.
type line struct{ Path, Class, Title string }

// draw makes the picture of the edges on the page.
func (page *graphPage) draw(l *lang.Language, reach []graph.Reached) {
	number, ids := map[string]int{}, []string{}
	ends := make([][2]int, len(page.Edges))
	of := func(id string) int {
		if n, ok := number[id]; ok {
			return n
		}
		number[id] = len(ids)
		ids = append(ids, id)
		return number[id]
	}
	for i, e := range page.Edges {
		ends[i] = [2]int{of(e.From), of(e.To)}
	}
	switch {
	case len(ids) == 0:
		page.Wrong = l.T("Nothing is wired yet: no scope of the configuration lets an agent call another, and no agent has tried. The first call is drawn here, or a scope in powerbox.yaml.")
		return
	case len(ids) > maxDrawn:
		page.Wrong = l.T("%s agents are too many for a picture. Choose one of them, and a number of hops.", lang.Number(len(ids)))
		return
	}
	looks := map[string][2]string{page.Agent: {"taken", l.T("in focus")}}
	for _, r := range reach {
		if looks[r.Agent] = [2]string{"open", l.T("in reach only where nothing is gated")}; len(r.Gated) > 0 {
			looks[r.Agent] = [2]string{"gated", l.T("its scopes allow something there")}
		}
	}
	x, y, width, height := handoff.Layout(len(ids), ends)
	pic := &picture{Width: width, Height: height}
	for i, e := range page.Edges {
		a, b := ends[i][0], ends[i][1]
		pic.Lines = append(pic.Lines, line{handoff.Curve(x[a], y[a], x[b], y[b]), e.State, e.From + " \u2192 " + e.To + ": " + e.says(l)})
	}
	for i, id := range ids {
		link := graphPage{Agent: id, Without: page.Without, Then: page.Then}
		pic.Boxes = append(pic.Boxes, box{
			X: x[i], Y: y[i], Width: handoff.BoxWidth, Height: handoff.BoxHeight, TextX: x[i] + 8, TextY: y[i] + 18,
			ID: id, Text: cut(id), Class: looks[id][0], Title: strings.TrimSuffix(id+": "+looks[id][1], ": "), Link: link.link(page.Hops, page.Without),
		})
	}
	page.Picture = pic
}

// cut shortens a name for a box.
func cut(id string) string {
	const most = 22
	if runes := []rune(id); len(runes) > most {
		return string(runes[:most-1]) + "\u2026"
	}
	return id
}

// says words an edge.
func (e edgeRow) says(l *lang.Language) string {
	var parts []string
	if len(e.Granted) > 0 {
		parts = append(parts, l.T("granted %s", strings.Join(e.Granted, ", ")))
	}
	if e.Allowed > 0 || e.Denied > 0 {
		parts = append(parts, l.T("%s allowed, %s denied", lang.Number(e.Allowed), lang.Number(e.Denied)))
	}
	if e.Given > 0 {
		parts = append(parts, l.N(e.Given, "given a capability %s time", "given a capability %s times"))
	}
	if len(e.Missing) > 0 {
		parts = append(parts, l.T("no scope allows %s", strings.Join(e.Missing, ", ")))
	}
	return strings.Join(parts, "; ")
}
