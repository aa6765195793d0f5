package witness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
)

// askTime bounds one call of a witness.
const askTime = 5 * time.Second

// Log is the log that asks.
type Log interface {
	// LatestCheckpoint returns the signed checkpoint of everything that is recorded,
	// of the empty tree where nothing is.
	LatestCheckpoint(ctx context.Context) ([]byte, error)
	// Tree returns the stored tree, for one goroutine.
	Tree(ctx context.Context) tlog.HashReader
	// KeepCosigned keeps a checkpoint with its cosignatures, durably.
	KeepCosigned(ctx context.Context, signed []byte) error
}

// Caller calls out.
type Caller interface {
	// Post returns status and body of the answer.
	Post(ctx context.Context, address, contentType string, body []byte) (int, []byte, error)
}

// Asked is a witness that is asked.
type Asked struct {
	URL string // submission prefix
	Key evidence.WitnessKey
}

// AskerConfig names the log and its witnesses.
type AskerConfig struct {
	Log       Log           // required
	Key       note.Verifier // required: of the log
	Call      Caller        // required
	Witnesses []Asked       // required: one at least
	Quorum    int           // required: how many must agree, more than half
	Period    time.Duration // required: time between two rounds
	// UnsafeStart lets [Asker.Start] pass where too few witnesses answer.
	UnsafeStart bool
	Slog        *slog.Logger // required
}

// Asker asks witnesses to cosign the checkpoints of a log.
type Asker struct {
	config AskerConfig

	mu    sync.Mutex
	sizes []int64 // what each witness has cosigned last, as far as is known
	size  int64   // of the checkpoint that all of them have cosigned
	whole bool    // whether all of them have
	began int64   // size of the log that a round is about

	telling sync.Mutex // guards states, also while a round waits for witnesses
	states  []State
}

// State is how far a witness is.
type State struct {
	Name, URL string
	Size      int64     // of the log that it cosigned last; 0 for none since the start
	At        time.Time // when it did, by its own clock
	Failure   error     // why it did not in the last round, nil where it did
}

// States returns the state of every witness.
func (a *Asker) States() []State {
	a.telling.Lock()
	defer a.telling.Unlock()
	return slices.Clone(a.states)
}

// learn keeps what a witness answered about a checkpoint.
func (a *Asker) learn(i int, signed []byte, size int64, said answer) {
	a.telling.Lock()
	defer a.telling.Unlock()
	s := &a.states[i]
	if s.Failure = said.err; s.Failure != nil {
		return
	}
	one := evidence.Quorum{Number: 1, Witnesses: []evidence.WitnessKey{a.config.Witnesses[i].Key}}
	if found, err := one.Check(append(slices.Clip(signed), said.line...)); err == nil && len(found) > 0 {
		s.Size, s.At = size, found[0].Time
	}
}

// NewAsker refuses a quorum that two contradicting checkpoints could both have.
func NewAsker(c AskerConfig) (*Asker, error) {
	if err := c.quorum().Usable(); err != nil {
		return nil, err
	}
	if 2*c.Quorum <= len(c.Witnesses) {
		return nil, fmt.Errorf("witness: a quorum of %d of %d witnesses could cosign two checkpoints that contradict each other; want %d at least",
			c.Quorum, len(c.Witnesses), len(c.Witnesses)/2+1)
	}
	a := &Asker{config: c, sizes: make([]int64, len(c.Witnesses))}
	for _, w := range c.Witnesses {
		a.states = append(a.states, State{Name: w.Key.Name(), URL: w.URL})
	}
	return a, nil
}

func (c AskerConfig) quorum() evidence.Quorum {
	q := evidence.Quorum{Number: c.Quorum}
	for _, w := range c.Witnesses {
		q.Witnesses = append(q.Witnesses, w.Key)
	}
	return q
}

// ErrContradicted says that a witness has cosigned what this log is no
// continuation of. Asking again does not help: the log was rolled back or forked.
var ErrContradicted = errors.New("witness: the log does not continue the cosigned checkpoint")

// ErrUnwitnessed says that too few witnesses have cosigned for now. Asking again can
// help.
var ErrUnwitnessed = errors.New("witness: too few witnesses have cosigned")

// Start holds the log against what every witness has cosigned last, before
// anything is served (ATK-43). One witness that contradicts is enough to refuse: of
// a log that was rolled back, perhaps one alone has seen the end. Where fewer than
// the quorum answer the error is [ErrUnwitnessed], but with UnsafeStart.
func (a *Asker) Start(ctx context.Context) error {
	r, err := a.round(ctx)
	if err != nil {
		return err
	}
	if err := r.contradicted(); err != nil {
		return err
	}
	if err := r.unwitnessed(a.config.Quorum); err != nil && !a.config.UnsafeStart {
		return err
	} else if err != nil {
		a.config.Slog.WarnContext(ctx, "NOT SAFE: the store is served although witnesses could not say whether it is the latest", slog.Any("error", err))
	}
	return nil
}

// Cosign asks for cosignatures of the log as it is now, and keeps the checkpoint
// with those that it got when they are a quorum. Otherwise it returns
// [ErrUnwitnessed]; [ErrContradicted] where so many witnesses contradict that no
// quorum can be had any more, so that fewer of them cannot stop a log.
func (a *Asker) Cosign(ctx context.Context) error {
	r, err := a.round(ctx)
	if err != nil {
		return err
	}
	err = r.contradicted()
	if err != nil && r.against() > len(a.config.Witnesses)-a.config.Quorum {
		return err
	}
	if err != nil {
		a.config.Slog.ErrorContext(ctx, "a witness contradicts the log, and others do not", slog.Any("error", err))
	}
	return r.unwitnessed(a.config.Quorum)
}

// Run asks every period until ctx ends. It returns early with [ErrContradicted]
// alone: a log that cannot be continued must not be.
func (a *Asker) Run(ctx context.Context) error {
	tick := time.NewTicker(a.config.Period)
	defer tick.Stop()
	for quiet := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := a.Cosign(ctx)
		switch {
		case errors.Is(err, ErrContradicted):
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil && quiet:
			a.config.Slog.WarnContext(ctx, "checkpoints are not cosigned for now", slog.Any("error", err))
		case err == nil && !quiet:
			a.config.Slog.InfoContext(ctx, "checkpoints are cosigned again")
		}
		quiet = err == nil
	}
}

// answer is what one witness said.
type answer struct {
	witness string
	line    string
	err     error
}

// answers are those of one round, nil where there was nothing to ask: all
// witnesses have cosigned what there is.
type answers []answer

func (r answers) against() int {
	n := 0
	for _, one := range r {
		if errors.Is(one.err, ErrContradicted) {
			n++
		}
	}
	return n
}

func (r answers) contradicted() error {
	var all []error
	for _, one := range r {
		if errors.Is(one.err, ErrContradicted) {
			all = append(all, one.err)
		}
	}
	return errors.Join(all...)
}

func (r answers) unwitnessed(quorum int) error {
	var missing []error
	for _, one := range r {
		if one.err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", one.witness, one.err))
		}
	}
	if have := len(r) - len(missing); r != nil && have < quorum {
		return fmt.Errorf("%w: %d, and %d are needed: %w", ErrUnwitnessed, have, quorum, errors.Join(missing...))
	}
	return nil
}

// round asks all witnesses at once, and keeps what they say where it is a quorum.
// What all of them have cosigned already is not asked for again.
func (a *Asker) round(ctx context.Context) (answers, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	signed, err := a.config.Log.LatestCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	checkpoint, err := evidence.OpenCheckpoint(signed, a.config.Key)
	if err != nil || a.whole && checkpoint.Size == a.size {
		return nil, err
	}
	a.began = checkpoint.Size
	all := make(answers, len(a.config.Witnesses))
	var wg sync.WaitGroup
	for i, w := range a.config.Witnesses {
		wg.Go(func() {
			line, err := a.ask(ctx, i, signed, checkpoint)
			all[i] = answer{w.Key.Name(), line, err}
			a.learn(i, signed, checkpoint.Size, all[i])
		})
	}
	wg.Wait()
	a.whole, a.size = all.unwitnessed(len(all)) == nil, checkpoint.Size
	if all.unwitnessed(a.config.Quorum) != nil || checkpoint.Size == 0 {
		return all, nil
	}
	for _, one := range all {
		signed = append(signed, one.line...)
	}
	return all, a.config.Log.KeepCosigned(ctx, signed)
}

// ask asks one witness, and once more with the size that it names.
func (a *Asker) ask(ctx context.Context, i int, signed []byte, checkpoint evidence.Checkpoint) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for range 2 {
		s, err := NewSubmission(min(a.sizes[i], checkpoint.Size), a.config.Log.Tree(ctx), signed)
		if err != nil {
			return "", err
		}
		status, body, err := a.config.Call.Post(ctx, strings.TrimSuffix(a.config.Witnesses[i].URL, "/")+"/add-checkpoint", "text/plain", []byte(s.String()))
		if err != nil {
			return "", err
		}
		switch status {
		case http.StatusOK:
			line, err := evidence.TakeCosignature(signed, body, a.config.Witnesses[i].Key)
			if err == nil {
				a.sizes[i] = checkpoint.Size
			}
			return line, err
		case http.StatusConflict:
			if a.sizes[i], err = conflict(string(body), s.Old, checkpoint); err != nil && a.elsewhere(ctx, a.sizes[i]) {
				return "", errElsewhere
			}
			if err != nil {
				return "", fmt.Errorf("%s: %w", a.config.Witnesses[i].Key.Name(), err)
			}
		case http.StatusUnprocessableEntity:
			return "", fmt.Errorf("%s: %w: the %d entries of %s that it has cosigned are not the first of the %d in this store: the store was rolled back and went on, or shows different histories",
				a.config.Witnesses[i].Key.Name(), ErrContradicted, s.Old, checkpoint.Origin, checkpoint.Size)
		default:
			return "", fmt.Errorf("it answers %d: %.200q", status, body)
		}
	}
	return "", errors.New("it names one size after the other; does another server use the same log?")
}

// errElsewhere is no contradiction: another node of this log was cosigned meanwhile.
var errElsewhere = errors.New("it has cosigned a later checkpoint of this log meanwhile, for another node")

// elsewhere reports whether the log has grown to a size that a witness has cosigned
// since this round began: another node that writes it has asked. Whether it is the
// same history the next round tells.
func (a *Asker) elsewhere(ctx context.Context, size int64) bool {
	signed, err := a.config.Log.LatestCheckpoint(ctx)
	if err != nil {
		return false
	}
	now, err := evidence.OpenCheckpoint(signed, a.config.Key)
	return err == nil && size > 0 && now.Size >= size && now.Size > a.began
}

// conflict reads the size that a witness has cosigned last.
func conflict(body string, old int64, checkpoint evidence.Checkpoint) (int64, error) {
	size, err := strconv.ParseInt(strings.TrimSuffix(body, "\n"), 10, 64)
	switch {
	case err != nil || size < 0:
		return 0, errors.New("it answers 409 without the size that it has cosigned")
	case size > checkpoint.Size:
		return size, fmt.Errorf("%w: it has cosigned %d entries of %s, and this store has %d: the store is behind, as one restored from a backup is",
			ErrContradicted, size, checkpoint.Origin, checkpoint.Size)
	case size == old && old == checkpoint.Size:
		return size, fmt.Errorf("%w: it has cosigned other %d entries of %s than this store has", ErrContradicted, size, checkpoint.Origin)
	}
	return size, nil
}
