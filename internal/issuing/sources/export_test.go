package sources

// KeptBytes is how much memory the kept pages take.
func (g *Guarded) KeptBytes() int {
	g.kept.mu.Lock()
	defer g.kept.mu.Unlock()
	return g.kept.bytes
}
