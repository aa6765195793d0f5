package powerboxadk

// Remember has a gate remember no more runs than n.
func (g *Gate) Remember(n int) { g.most = n }

// Remembered are the runs and the calls that a gate remembers.
func (g *Gate) Remembered() (runs, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.runs), len(g.pending)
}
