package attach

// Begun is how many tasks elsewhere the process's own task remembers.
func (a *Attach) Begun() int { return len(a.own.begun) }
