package evidence

import (
	"io"
)

const (
	// batchLines and batchBytes are how much one goroutine examines at a time: enough
	// that handing it over costs nothing, little enough that memory stays small.
	batchLines = 256
	batchBytes = 256 << 10
)

// batch is some lines of a bundle in their order.
type batch struct {
	first int    // number of its first line
	text  []byte // all lines, without line feeds
	ends  []int  // where each ends
	err   error  // why no line follows; nil where one does
	found []examined
	done  chan struct{} // closed once all are examined
}

// line returns the line of that index.
func (b *batch) line(n int) []byte {
	from := 0
	if n > 0 {
		from = b.ends[n-1]
	}
	return b.text[from:b.ends[n]:b.ends[n]]
}

// VerifyParallel is [VerifySeries] by several goroutines: they check each
// record alone, and the work that needs the order of the bundles is
// done by one, in that order. The report is the same, word for word. It returns when
// the readers have ended, or one has failed, and all goroutines with them.
func VerifyParallel(trust Trust, workers int, bundles ...io.Reader) (Report, error) {
	if workers < 2 {
		return VerifySeries(trust, bundles...)
	}
	v, err := newVerifier(trust, len(bundles))
	if err != nil {
		return Report{}, err
	}
	order, work := make(chan *batch, 2*workers), make(chan *batch, 2*workers)
	go func() {
		defer close(order)
		defer close(work)
		readBatches(bundles, func(b *batch) {
			order <- b
			work <- b
		})
	}()
	for range workers {
		go func() {
			for b := range work {
				for n := range b.ends {
					b.found = append(b.found, v.examine(b.first+n, b.line(n)))
				}
				close(b.done)
			}
		}()
	}
	before := 0
	for b := range order {
		<-b.done
		if b.first == 1 {
			before = v.begin()
		}
		for n := range b.ends {
			v.line = before + b.first + n
			v.read(b.line(n), b.found[n])
		}
		if b.err != nil {
			v.line = before + b.first + len(b.ends)
			err = v.end(b.err)
		}
	}
	if err != nil {
		return Report{}, err
	}
	v.finish()
	return v.report, nil
}

// readBatches takes the lines of bundles one after the other, as far as they can be
// read.
func readBatches(bundles []io.Reader, take func(*batch)) {
	for _, r := range bundles {
		if err := readBatchesOf(r, take); failed(err) {
			return
		}
	}
}

// readBatchesOf takes the lines of one bundle, and returns what ended it.
func readBatchesOf(r io.Reader, take func(*batch)) error {
	lines, done := linesOf(r)
	defer done()
	for {
		b := lines.batch()
		take(b)
		if b.err != nil {
			return b.err
		}
	}
}

// batch reads the next lines.
func (l *lineReader) batch() *batch {
	b := &batch{first: l.number + 1, done: make(chan struct{})}
	for len(b.ends) < batchLines && len(b.text) < batchBytes {
		line, err := l.next()
		if err != nil {
			b.err = err
			return b
		}
		b.text = append(b.text, line...)
		b.ends = append(b.ends, len(b.text))
	}
	return b
}
