package people

import (
	"maps"
	"slices"
	"sync"
)

// Administrators remembers the people who were seen with the permission to administer. No
// configuration names those to whom a group gives it. The zero value is ready, and its methods
// can be called by many goroutines.
type Administrators struct {
	mu   sync.Mutex
	seen map[string]bool
}

// See notes what a recognized person may do now.
func (a *Administrators) See(who Person, rights Rights) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !rights.May(Administer) {
		delete(a.seen, who.Principal)
		return
	}
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	a.seen[who.Principal] = true
}

// All are the principals.
func (a *Administrators) All() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.seen))
}
