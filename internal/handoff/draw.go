package handoff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// maxDrawn is how many agents a picture has at most.
const maxDrawn = 500

// View says how much of a graph a tree shows.
type View struct {
	From string // only what this agent can set off; "" for everything
	// Levels is how many hand-offs deep it goes; deeper ones are counted. 0 for all.
	Levels int
}

// Tree writes the graph as a tree, from every origin or from one agent. An agent
// that was shown above is not shown again; those that hand nothing on stand beside who hands
// to them.
func Tree(w io.Writer, g *graph.Graph, v View) error {
	failures := map[string]*gate.Failure{}
	for _, e := range g.Edges() {
		if e.Failure != nil {
			failures[wireKey(e.Wire)] = e.Failure
		}
	}
	origins := g.Origins()
	if v.From != "" {
		origins = []string{v.From}
	} else { // circles that nothing leads into have no origin
		reached := map[string]bool{}
		for _, o := range origins {
			walk(g, o, reached)
		}
		for _, n := range g.Nodes() {
			if !reached[n.ID] && len(g.From(n.ID)) > 0 {
				origins = append(origins, n.ID)
				walk(g, n.ID, reached)
			}
		}
	}
	t := tree{w: w, g: g, failures: failures, under: firstWires(g, origins), levels: maxShown}
	if v.Levels > 0 {
		t.levels, t.radii = min(v.Levels, maxShown), map[string]graph.Radius{}
		for _, r := range g.Radii() {
			t.radii[r.Agent] = r
		}
	}
	for _, o := range origins {
		t.line(o + t.beside(o))
		t.below(o, "")
	}
	if t.elsewhere {
		t.line("(...: what it hands on is shown elsewhere)")
	}
	return t.err
}

// firstWires finds, for every agent, the wire nearest to an origin that leads to
// it: under that one it is shown with what it hands on.
func firstWires(g *graph.Graph, origins []string) map[string]string {
	first := map[string]string{}
	queue := slices.Clone(origins)
	for _, o := range origins {
		first[o] = o
	}
	for i := 0; i < len(queue); i++ {
		for _, w := range g.From(queue[i]) {
			if _, seen := first[w.To]; !seen {
				first[w.To] = wireKey(w)
				queue = append(queue, w.To)
			}
		}
	}
	return first
}

// walk marks what wires lead to, without recursion.
func walk(g *graph.Graph, from string, reached map[string]bool) {
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if reached[at] {
			continue
		}
		reached[at] = true
		for _, w := range g.From(at) {
			queue = append(queue, w.To)
		}
	}
}

type tree struct {
	w         io.Writer
	g         *graph.Graph
	failures  map[string]*gate.Failure
	under     map[string]string       // the wire that an agent is shown under
	radii     map[string]graph.Radius // where not everything is shown
	levels    int
	depth     int
	elsewhere bool
	err       error
}

// maxShown is how deep a tree goes.
const maxShown = 64

func (t *tree) line(text string) {
	if _, err := fmt.Fprintln(t.w, text); err != nil && t.err == nil {
		t.err = err
	}
}

// plain reports whether a wire is one that passes, to someone who hands nothing
// on: there is nothing to show below it.
func (t *tree) plain(w graph.Wire) bool {
	return t.failures[wireKey(w)] == nil && len(t.g.From(w.To)) == 0
}

// beside are those that an agent hands to and that hand nothing on.
func (t *tree) beside(agent string) string {
	var all []string
	for _, w := range t.g.From(agent) {
		if t.plain(w) {
			all = append(all, w.To+" "+strings.Join(names(w), ", "))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "  > " + strings.Join(all, "; ")
}

func (t *tree) below(agent, indent string) {
	wires := slices.DeleteFunc(slices.Clone(t.g.From(agent)), t.plain)
	for i, w := range wires {
		branch, further := "├─ ", "│  "
		if i == len(wires)-1 {
			branch, further = "└─ ", "   "
		}
		text := indent + branch + w.To + "  " + t.judged(w)
		here := t.under[w.To] == wireKey(w)
		switch {
		case !here && len(t.g.From(w.To)) > 0:
			text += "  ..."
			t.elsewhere = true
		case here && t.depth+1 >= t.levels:
			if r := t.radii[w.To]; r.AmbientAgents > 0 {
				text += fmt.Sprintf("  (+%d below)", r.AmbientAgents)
			}
			here = false
		default:
			text += t.beside(w.To)
		}
		t.line(text)
		if here && t.err == nil {
			t.under[w.To] = "" // a second wire of the same kind does not show it again
			t.depth++
			t.below(w.To, indent+further)
			t.depth--
		}
	}
}

func (t *tree) judged(w graph.Wire) string {
	if f := t.failures[wireKey(w)]; f != nil {
		return "never passes: " + f.Error()
	}
	return strings.Join(names(w), ", ")
}

func names(w graph.Wire) []string {
	out := make([]string, len(w.Requires))
	for i, op := range w.Requires {
		out[i] = op.String()
	}
	return out
}

func wireKey(w graph.Wire) string {
	return w.From + "\x00" + w.To + "\x00" + strings.Join(names(w), "\x00")
}

// picture is the drawing: the agents that have wires, with the judged edges.
func picture(g *graph.Graph) (ids []string, number map[string]int, edges []graph.Edge, err error) {
	edges = g.Edges()
	number = map[string]int{}
	for _, e := range edges {
		for _, id := range []string{e.Wire.From, e.Wire.To} {
			if _, ok := number[id]; !ok {
				number[id] = len(ids)
				ids = append(ids, id)
			}
		}
	}
	if len(ids) > maxDrawn {
		err = fmt.Errorf("%d agents are too many for a picture; want at most %d: draw what one agent reaches, with --from", len(ids), maxDrawn)
	}
	return ids, number, edges, err
}

// DOT writes the graph for Graphviz. Edges that never pass are red and dashed.
func DOT(w io.Writer, g *graph.Graph) error {
	ids, _, edges, err := picture(g)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "digraph delegation {\n  rankdir=LR;\n  node [shape=box];")
	for _, id := range ids {
		fmt.Fprintf(w, "  %s;\n", dotText(id))
	}
	for _, e := range edges {
		style := ""
		label := strings.Join(names(e.Wire), ", ")
		if e.Failure != nil {
			style, label = ", color=red, style=dashed", e.Failure.Error()
		}
		fmt.Fprintf(w, "  %s -> %s [label=%s%s];\n", dotText(e.Wire.From), dotText(e.Wire.To), dotText(label), style)
	}
	_, err = fmt.Fprintln(w, "}")
	return err
}

func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// Mermaid writes the graph as a Mermaid flowchart.
func Mermaid(w io.Writer, g *graph.Graph) error {
	ids, number, edges, err := picture(g)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "flowchart LR")
	for i, id := range ids {
		fmt.Fprintf(w, "  n%d[\"%s\"]\n", i, mermaidText(id))
	}
	var bad []string
	for i, e := range edges {
		arrow, label := "-->", strings.Join(names(e.Wire), ", ")
		if e.Failure != nil {
			arrow, label = "-.->", e.Failure.Error()
			bad = append(bad, fmt.Sprint(i))
		}
		fmt.Fprintf(w, "  n%d %s|\"%s\"| n%d\n", number[e.Wire.From], arrow, mermaidText(label), number[e.Wire.To])
	}
	if len(bad) > 0 {
		_, err = fmt.Fprintf(w, "  linkStyle %s stroke:#c00\n", strings.Join(bad, ","))
	}
	return err
}

// mermaidText writes what Mermaid would read as its own as entities.
func mermaidText(s string) string {
	return strings.NewReplacer("&", "#amp;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "#", "#35;", "\n", " ", "`", "#96;").Replace(s)
}

// The measures of an SVG, in pixels.
const (
	BoxWidth   = 170
	BoxHeight  = 28
	gapX, gapY = 90, 16
)

// The looks of boxes: of an agent, of the one that is asked about, of what its
// scopes let it reach, and of what nothing but the lack of a gate would.
const (
	plainBox = `fill="#eef3f7" stroke="#567"`
	takenBox = `fill="#fff" stroke="#0550ae" stroke-width="3"`
	gatedBox = `fill="#e9f6ec" stroke="#1a6b34" stroke-width="2"`
	openBox  = `fill="#fff1f0" stroke="#a40e26" stroke-dasharray="5 3"`
)

// SVG draws the graph in layers, origins on the left. It has no script and loads
// nothing.
func SVG(w io.Writer, g *graph.Graph) error { return draw(w, g, nil) }

// SVGReach is [SVG] with what an agent could reach if it were taken over: what its
// scopes allow, and what it could only reach where nothing is gated.
func SVGReach(w io.Writer, g *graph.Graph, from string) error {
	looks := map[string]string{from: takenBox}
	for _, r := range g.Reach(from) {
		switch {
		case r.Agent == from:
		case len(r.Gated) > 0:
			looks[r.Agent] = gatedBox
		default:
			looks[r.Agent] = openBox
		}
	}
	return draw(w, g, looks)
}

// Layout places boxes in layers, origins on the left. ends are the boxes that each line
// leads from and to.
func Layout(n int, ends [][2]int) (x, y []int, width, height int) {
	layers := layered(n, ends)
	x, y = make([]int, n), make([]int, n)
	rows := 0
	for _, members := range layers {
		rows = max(rows, len(members))
	}
	height = gapY + rows*(BoxHeight+gapY)
	for l, members := range layers {
		for row, v := range members { // spread over the height, beside their own
			x[v], y[v] = gapX/4+l*(BoxWidth+gapX), gapY/2+(2*row+1)*(height-gapY)/(2*len(members))-BoxHeight/2
		}
	}
	width = len(layers)*(BoxWidth+gapX) - gapX/4 // a wire within the last layer goes round its right side
	return x, y, width, height
}

func draw(w io.Writer, g *graph.Graph, looks map[string]string) error {
	ids, number, edges, err := picture(g)
	if err != nil {
		return err
	}
	ends := make([][2]int, len(edges))
	for i, e := range edges {
		ends[i] = [2]int{number[e.Wire.From], number[e.Wire.To]}
	}
	x, y, width, height := Layout(len(ids), ends)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img" aria-label="Who may hand what to whom">`+"\n",
		width, height, width, height)
	fmt.Fprintln(w, `<rect width="100%" height="100%" fill="#fff"/>`)
	for _, e := range edges {
		a, b := number[e.Wire.From], number[e.Wire.To]
		line, title := `stroke="#567" fill="none"`, strings.Join(names(e.Wire), ", ")
		aside := 0 // what never passes stands beside what does
		if e.Failure != nil {
			aside = 5
			line, title = `stroke="#c00" stroke-dasharray="4 3" fill="none"`, e.Failure.Error()
		}
		fmt.Fprintf(w, `<path d="%s" %s><title>%s</title></path>`+"\n", Curve(x[a], y[a]+aside, x[b], y[b]+aside), line, html.EscapeString(e.Wire.From+" to "+e.Wire.To+": "+title))
	}
	for i, id := range ids {
		look := cmp.Or(looks[id], plainBox)
		fmt.Fprintf(w, `<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="4" %s/><text x="%d" y="%d">%s</text></g>`+"\n",
			html.EscapeString(id), x[i], y[i], BoxWidth, BoxHeight, look, x[i]+8, y[i]+18, html.EscapeString(short(id)))
	}
	_, err = fmt.Fprintln(w, "</svg>")
	return err
}

// Curve is the way from one box to another, with a tip: from the right of the first
// to the left of the second, round the side where they are in one layer, and from
// the left where it goes back.
func Curve(ax, ay, bx, by int) string {
	const tip = 6
	y1, y2 := ay+BoxHeight/2, by+BoxHeight/2
	x1, x2, out, in := ax+BoxWidth, bx, 1, -1
	switch {
	case ax == bx:
		x2, in = bx+BoxWidth, 1
		y2 += BoxHeight / 4 // a wire to itself is seen
	case bx < ax:
		x1, x2, out, in = ax, bx+BoxWidth, -1, 1
	}
	bend := max(gapX/2, abs(x2-x1)/2)
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %dm%d %dl%d %dl%d %d", x1, y1, x1+out*bend, y1, x2+in*bend, y2, x2, y2, in*tip, -tip/2, -in*tip, tip/2, in*tip, tip/2)
}

func abs(n int) int { return max(n, -n) }

func short(id string) string {
	if runes := []rune(id); len(runes) > 24 {
		return string(runes[:23]) + "..."
	}
	return id
}

// layered puts every agent one layer behind the first that hands to it.
func layered(n int, ends [][2]int) [][]int {
	out, into := make([][]int, n), make([]int, n)
	for _, e := range ends {
		if a, b := e[0], e[1]; a != b {
			out[a] = append(out[a], b)
			into[b]++
		}
	}
	layer := make([]int, n)
	for i := range layer {
		layer[i] = -1
	}
	var queue []int
	add := func(v, l int) {
		if layer[v] < 0 {
			layer[v] = l
			queue = append(queue, v)
		}
	}
	for v := range n {
		if into[v] == 0 {
			add(v, 0)
		}
	}
	for next := 0; ; next++ {
		for ; len(queue) > 0; queue = queue[1:] {
			for _, to := range out[queue[0]] {
				add(to, layer[queue[0]]+1)
			}
		}
		if next == n {
			break
		}
		add(next, 0) // of a circle that nothing leads into
	}
	layers := make([][]int, slices.Max(append(slices.Clone(layer), 0))+1)
	for v, l := range layer {
		layers[l] = append(layers[l], v)
	}
	untangle(layers, n, ends)
	return layers
}

// untangle puts agents near those that they hand to and that hand to them, sweep by
// sweep, so that fewer lines cross.
func untangle(layers [][]int, n int, ends [][2]int) {
	var near [2][][]int // those who hand to an agent, and those it hands to
	near[0], near[1] = make([][]int, n), make([][]int, n)
	for _, e := range ends {
		a, b := e[0], e[1]
		near[0][b], near[1][a] = append(near[0][b], a), append(near[1][a], b)
	}
	at := make([]float64, n)
	place := func(members []int) {
		for row, v := range members {
			at[v] = (float64(row) + 0.5) / float64(len(members))
		}
	}
	for _, members := range layers {
		place(members)
	}
	for sweep := range 9 { // the last one puts agents beside who hands to them
		for l := range layers {
			members := layers[l]
			if sweep%2 == 1 {
				members = layers[len(layers)-1-l]
			}
			mean := map[int]float64{}
			for _, v := range members {
				mean[v] = at[v]
				if beside := near[sweep%2][v]; len(beside) > 0 {
					mean[v] = 0
					for _, o := range beside {
						mean[v] += at[o] / float64(len(beside))
					}
				}
			}
			sorting.Stable(members, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
			place(members)
		}
	}
}

// SARIF writes findings as SARIF 2.1.0, for the review tools of code hosts.
func SARIF(w io.Writer, findings []Finding, version string) error {
	type text struct {
		Text string `json:"text"`
	}
	type rule struct {
		ID    string `json:"id"`
		About text   `json:"shortDescription"`
	}
	driven := []rule{}
	for _, r := range rules {
		driven = append(driven, rule{r.ID, text{r.About}})
	}
	results := []map[string]any{}
	for _, f := range findings {
		physical := map[string]any{"artifactLocation": map[string]any{"uri": f.Place.File}}
		if f.Place.Line > 0 {
			physical["region"] = map[string]any{"startLine": f.Place.Line}
		}
		results = append(results, map[string]any{
			"ruleId": f.Rule, "level": f.Level, "message": text{f.Message}, "locations": []any{map[string]any{"physicalLocation": physical}},
		})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{map[string]any{
			"tool":    map[string]any{"driver": map[string]any{"name": "powerbox graph check", "version": version, "rules": driven}},
			"results": results,
		}},
	})
}
