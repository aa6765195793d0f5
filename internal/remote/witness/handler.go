package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/powerbox-project/powerbox/evidence"
)

// maxBody bounds the bytes read of a request, a little above the largest submission.
const maxBody = 600 << 10

// sizeType is the type of the answer that names the size cosigned last.
const sizeType = "text/x.tlog.size"

// Handler answers add-checkpoint, and shows the last cosigned checkpoints:
//
//	POST /add-checkpoint
//	GET  /checkpoint/{SHA-256 of the origin, in hex}
//
// The second is ours: C2SP has none yet. Anyone who watches a log holds it against
// what the log itself shows.
func Handler(b *Book, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", func(w http.ResponseWriter, r *http.Request) { b.add(w, r, log) })
	mux.HandleFunc("GET /checkpoint/{log}", b.show)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// CheckpointPath is where a witness shows what it has cosigned last of a log.
func CheckpointPath(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return "/checkpoint/" + hex.EncodeToString(sum[:])
}

func (b *Book) show(w http.ResponseWriter, r *http.Request) {
	for origin := range b.logs {
		signed := b.Cosigned(origin)
		if CheckpointPath(origin) == r.URL.Path && signed != "" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = io.WriteString(w, signed) // the client has gone: there is no caller to tell
			return
		}
	}
	http.Error(w, "nothing was cosigned of that log", http.StatusNotFound)
}

func (b *Book) add(w http.ResponseWriter, r *http.Request, log *slog.Logger) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read, or is too large", http.StatusBadRequest)
		return
	}
	s, err := ParseSubmission(body)
	var line string
	if err == nil {
		line, err = b.Add(s)
	}
	if err != nil {
		b.refuse(w, r, log, s, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, line) // as in show
}

// refuse says why nothing is cosigned. What contradicts a checkpoint that was
// cosigned is logged with both: signed by the log, they prove that it lied.
func (b *Book) refuse(w http.ResponseWriter, r *http.Request, log *slog.Logger, s Submission, err error) {
	origin, _ := s.Origin() // of what cannot be read there is none
	switch {
	case errors.Is(err, ErrUnknownLog):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, ErrNotSigned):
		http.Error(w, err.Error(), http.StatusForbidden)
	case errors.Is(err, ErrOldSize), errors.Is(err, ErrOtherRoot):
		if errors.Is(err, ErrOtherRoot) {
			b.accuse(r, log, origin, s, err)
		}
		w.Header().Set("Content-Type", sizeType)
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, "%d\n", b.Size(origin))
	case errors.Is(err, evidence.ErrProof):
		b.accuse(r, log, origin, s, err)
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case errors.Is(err, errDisk):
		log.ErrorContext(r.Context(), "a checkpoint could not be kept and was not cosigned", slog.String("origin", origin), slog.Any("error", err))
		http.Error(w, "the checkpoint could not be kept", http.StatusInternalServerError)
	default:
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (b *Book) accuse(r *http.Request, log *slog.Logger, origin string, s Submission, err error) {
	log.ErrorContext(r.Context(), "a log asks to cosign a checkpoint that does not continue the one that was cosigned", slog.String("origin", origin),
		slog.Any("error", err), slog.String("submitted", string(s.Checkpoint)), slog.String("cosigned", b.Cosigned(origin)))
}
