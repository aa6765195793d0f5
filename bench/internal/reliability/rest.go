package reliability

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// rest has the resources that a process holds without any requests.
type rest struct {
	goroutines, files int
	heap              int // bytes, with garbage that is not collected yet
}

// How much more a used process may hold than one that has just begun: connections that
// are kept, and caches. The program collects garbage when its heap is five times the
// live heap (docs/how-to/operations.md), so most of the heap is none of these.
const (
	moreGoroutines = 64
	moreFiles      = 64
	moreHeap       = 128 << 20
)

// resting reads it from the metrics of a process.
func resting(ctx context.Context, address string) (rest, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return rest{}, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Do(r)
	if err != nil {
		return rest{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	var out rest
	into := map[string]*int{"go_goroutines": &out.goroutines, "process_open_fds": &out.files, "go_memstats_heap_alloc_bytes": &out.heap}
	lines := bufio.NewScanner(io.LimitReader(response.Body, largest))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if to, wanted := into[name]; wanted {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return rest{}, fmt.Errorf("%s of %s: %w", name, address, err)
			}
			*to = int(n)
		}
	}
	if out.goroutines == 0 || out.files == 0 || out.heap == 0 {
		return rest{}, errors.Join(lines.Err(), fmt.Errorf("%s does not say what it holds: %+v", address, out))
	}
	return out, nil
}

// leaks compares the first node and the first gateway, which have been used for a while,
// with the last ones, which it begins anew. A surplus that lasts for half a minute is a
// finding. It returns the numbers in words.
func (t *Town) leaks(ctx context.Context) (string, error) {
	n, g := t.nodes[len(t.nodes)-1], t.gateways[len(t.gateways)-1]
	if err := errors.Join(n.process.stop(30*time.Second), t.boot(ctx, n), g.process.stop(30*time.Second), t.open(ctx, g), t.whole(ctx)); err != nil {
		return "", err
	}
	t.front.spread.to.CloseIdleConnections()
	t.doors.spread.to.CloseIdleConnections()
	var words []string
	for _, pair := range []struct{ what, used, begun string }{{"the first node", t.nodes[0].metrics, n.metrics}, {"the first gateway", t.gateways[0].metrics, g.metrics}} {
		var used, begun rest
		err := until(ctx, 30*time.Second, func() (err error) {
			if begun, err = resting(ctx, pair.begun); err != nil {
				return err
			}
			if used, err = resting(ctx, pair.used); err != nil {
				return err
			}
			if used.goroutines > begun.goroutines+moreGoroutines || used.files > begun.files+moreFiles || used.heap > begun.heap+moreHeap {
				return &leak{fmt.Sprintf("%s holds %+v after it was used, one that has begun %+v", pair.what, used, begun)}
			}
			return nil
		})
		var held *leak
		switch {
		case errors.As(err, &held):
			t.ledger.finding("%s", held.text)
		case err != nil:
			return "", err
		}
		words = append(words, fmt.Sprintf("%s holds %d goroutines, %d files and %d MiB (a fresh one %d, %d and %d)",
			pair.what, used.goroutines, used.files, used.heap>>20, begun.goroutines, begun.files, begun.heap>>20))
	}
	return "at rest afterwards " + strings.Join(words, ". At rest "), nil
}

// leak is that a process holds too much.
type leak struct{ text string }

func (l *leak) Error() string { return l.text }
