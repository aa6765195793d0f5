package sources

import (
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// maxKeptBytes is how much memory the kept pages of one collection take at most.
const maxKeptBytes = 8 << 20

// kept keeps pages for a short time.
type kept struct {
	fresh time.Duration
	now   func() time.Time

	mu    sync.Mutex
	pages map[string]keptPage
	bytes int
}

type keptPage struct {
	page  catalogue.Page
	until time.Time
	bytes int
}

func (k *kept) get(key string) (catalogue.Page, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.pages[key]
	return p.page, ok && k.now().Before(p.until)
}

// put keeps a page. If there is no room, pages that have ended make room first, and then
// all do: a short time needs no finer choice.
func (k *kept) put(key string, p catalogue.Page) {
	n := sizeOf(key, p)
	if k.fresh <= 0 || n > maxKeptBytes {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bytes+n > maxKeptBytes {
		for name, old := range k.pages {
			if !k.now().Before(old.until) {
				k.drop(name)
			}
		}
	}
	if k.pages == nil || k.bytes+n > maxKeptBytes {
		k.pages, k.bytes = map[string]keptPage{}, 0
	}
	k.drop(key)
	k.pages[key] = keptPage{p, k.now().Add(k.fresh), n}
	k.bytes += n
}

func (k *kept) drop(key string) {
	k.bytes -= k.pages[key].bytes
	delete(k.pages, key)
}

// sizeOf is about how much memory a kept page takes.
func sizeOf(key string, p catalogue.Page) int {
	n := 2*len(key) + len(p.Next) + 512
	for _, item := range p.Items {
		n += 256 + len(item.ID) + len(item.Name)
		for name, v := range item.Attributes {
			n += 96 + len(name) + 2*len(v.AppendJSON(nil))
		}
	}
	return n
}
