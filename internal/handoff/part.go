package handoff

import "slices"

// Part returns what one agent can set off: the agents that wires lead to from it,
// with their scopes and wires. Places and files stay.
func (d *Declarations) Part(from string) *Declarations {
	reached := map[string]bool{from: true}
	out := map[string][]string{}
	for _, w := range d.Wires {
		out[w.From] = append(out[w.From], w.To)
	}
	queue := []string{from}
	for i := 0; i < len(queue); i++ {
		for _, to := range out[queue[i]] {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	part := New()
	part.Files = slices.Clone(d.Files)
	for id, a := range d.Agents {
		if reached[id] {
			part.Agents[id] = a
		}
	}
	for _, s := range d.Scopes {
		if reached[s.From] && (reached[s.To] || s.From == from) {
			_ = part.AddScope(s) // it was there once
		}
	}
	for _, w := range d.Wires {
		if reached[w.From] {
			part.Wires = append(part.Wires, w)
		}
	}
	return part
}
