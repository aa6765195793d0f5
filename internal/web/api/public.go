package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/tile"
)

// PublicLog is the public part of the log: checkpoints, hashes and leaves, which hold no
// body and no name.
type PublicLog interface {
	// LatestCheckpoint returns the signed checkpoint of everything that is recorded.
	LatestCheckpoint(ctx context.Context) ([]byte, error)
	// CosignedCheckpoint returns the checkpoint that witnesses cosigned last, nil for
	// none.
	CosignedCheckpoint(ctx context.Context) ([]byte, error)
	// Tree returns the stored tree, for one goroutine.
	Tree(ctx context.Context) tlog.HashReader
	// Leaves returns the leaves from one place up to, and without, another.
	Leaves(ctx context.Context, from, to int64) ([][]byte, error)
	// Place returns the place of a record; issuer.ErrNotFound for none.
	Place(ctx context.Context, id string) (int64, error)
}

// Public serves the log as C2SP tlog-tiles (EXT-35):
//
//	GET /checkpoint
//	GET /tile/LEVEL/INDEX[.p/WIDTH]
//	GET /tile/entries/INDEX[.p/WIDTH]
type Public struct {
	Log PublicLog
	// Cosign asks the witnesses for cosignatures of the log as it is now; nil where
	// there are no witnesses.
	Cosign func(ctx context.Context) error
	Slog   *slog.Logger
	busy   chan struct{}
}

// atOnce is the number of tiles that are read at the same time: strangers may ask,
// and callers come first.
const atOnce = 4

// NewPublic returns the public part of the log.
func NewPublic(log PublicLog, cosign func(ctx context.Context) error, slog *slog.Logger) *Public {
	return &Public{Log: log, Cosign: cosign, Slog: slog, busy: make(chan struct{}, atOnce)}
}

// Head returns the signed checkpoint of everything that is recorded.
func (p *Public) Head(ctx context.Context) ([]byte, error) { return p.Log.LatestCheckpoint(ctx) }

// checkpoint returns the checkpoint that every caller gets. Where there are witnesses it
// is the one that they have cosigned, since that is the same for every caller.
func (p *Public) checkpoint(ctx context.Context) ([]byte, error) {
	if p.Cosign != nil {
		if signed, err := p.Log.CosignedCheckpoint(ctx); signed != nil || err != nil {
			return signed, err
		}
	}
	return p.Log.LatestCheckpoint(ctx)
}

// cosigned asks the witnesses, and reports whether the cosigned checkpoint covers
// all that was recorded before.
func (p *Public) cosigned(ctx context.Context) bool {
	if p.Cosign == nil {
		return false
	}
	err := p.Cosign(ctx)
	if err != nil {
		p.Slog.WarnContext(ctx, "what is handed out has no cosignatures", slog.Any("error", err))
	}
	return err == nil
}

// Checkpoint serves the checkpoint. It changes, and is not to be cached.
func (p *Public) Checkpoint(w http.ResponseWriter, r *http.Request) {
	signed, err := p.checkpoint(r.Context())
	if err != nil {
		reply(w, r, p.Slog, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(signed) // the client has gone: there is no caller to tell
}

// Tile serves a tile, which never changes.
func (p *Public) Tile(w http.ResponseWriter, r *http.Request) {
	one, err := tile.ParsePath(strings.TrimPrefix(r.URL.EscapedPath(), "/"))
	if err != nil {
		problem(w, http.StatusNotFound, err.Error())
		return
	}
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-r.Context().Done():
		return
	}
	data, err := p.tile(r.Context(), one)
	if err != nil {
		reply(w, r, p.Slog, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(data) //nolint:gosec // an octet stream that no browser sniffs
}

func (p *Public) tile(ctx context.Context, one tlog.Tile) ([]byte, error) {
	signed, err := p.Log.LatestCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	latest, err := evidence.ReadCheckpoint(signed)
	if err != nil {
		return nil, err
	}
	if !tile.Within(one, latest.Size) {
		return nil, status{http.StatusNotFound, fmt.Sprintf("a log of %d entries does not have this tile", latest.Size)}
	}
	if one.L >= 0 {
		return tlog.ReadTileData(one, p.Log.Tree(ctx))
	}
	first := one.N << tile.Height
	leaves, err := p.Log.Leaves(ctx, first, first+int64(one.W))
	return tile.Entries(leaves), err
}

// Recorders serves the list of the recorders that may sign records of an agent (EXT-33).
// It is public, as the keys of the agent are.
func (a *Admin) Recorders(w http.ResponseWriter, r *http.Request) {
	select {
	case a.Public.busy <- struct{}{}:
		defer func() { <-a.Public.busy }()
	case <-r.Context().Done():
		return
	}
	list, err := a.Issuer.Recorders(r.Context(), r.PathValue("agent"))
	reply(w, r, a.Log, list, err)
}

// proof writes the C2SP tlog-proof of one record, under a checkpoint that
// witnesses have cosigned where that can be had.
func (a *Admin) proof(w http.ResponseWriter, r *http.Request) {
	if err := a.Store.View(r.Context(), func(rd issuer.Reader) error { _, err := ownRecord(r, rd, r.PathValue("id")); return err }); err != nil {
		reply(w, r, a.Log, nil, err)
		return
	}
	proof, err := a.Public.proof(r.Context(), r.PathValue("id"))
	if err != nil {
		reply(w, r, a.Log, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, proof.String())
}

// cosigning bounds how long an answer waits for witnesses. Without them its receipt has
// the checkpoint of the log alone.
const cosigning = 2 * time.Second

// Receipt returns the receipt of a record, with cosignatures where they can be had in
// time and have room.
func (a *Admin) Receipt(ctx context.Context, id string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, cosigning)
	cosigned := a.Public.cosigned(limited)
	cancel()
	proof, err := a.Public.proofUnder(ctx, id, cosigned)
	if err != nil {
		return nil, err
	}
	var sealed evidence.Sealed
	err = a.Store.View(ctx, func(r issuer.Reader) error {
		var err error
		sealed, err = r.Record(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	receipt, err := evidence.NewReceipt(sealed, proof)
	if err != nil && cosigned {
		if proof, err = a.Public.proofUnder(ctx, id, false); err == nil {
			receipt, err = evidence.NewReceipt(sealed, proof)
		}
	}
	return receipt, err
}

// ReceiptAt is [Admin.Receipt] of a record about an agent, and of no other.
func (a *Admin) ReceiptAt(ctx context.Context, agent, id string) ([]byte, error) {
	err := a.Store.View(ctx, func(r issuer.Reader) error {
		sealed, err := r.Record(id)
		if err == nil && sealed.Record().AgentID != agent {
			err = issuer.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.Receipt(ctx, id)
}

func (p *Public) proof(ctx context.Context, id string) (evidence.Proof, error) {
	return p.proofUnder(ctx, id, p.cosigned(ctx))
}

func (p *Public) proofUnder(ctx context.Context, id string, cosigned bool) (evidence.Proof, error) {
	place, err := p.Log.Place(ctx, id)
	if err != nil {
		return evidence.Proof{}, err
	}
	read := p.Log.LatestCheckpoint
	if cosigned {
		read = p.Log.CosignedCheckpoint
	}
	signed, err := read(ctx)
	if err != nil {
		return evidence.Proof{}, err
	}
	return evidence.ProveInclusion(place, p.Log.Tree(ctx), signed)
}

// export writes the bundle, with cosignatures where they can be had, and otherwise
// without.
func (p *Public) export(ctx context.Context, w io.Writer, keys []evidence.Key, bodies bool, from Exporter) error {
	if p.cosigned(ctx) {
		return from.ExportCosigned(ctx, w, keys, bodies)
	}
	if bodies {
		return from.ExportBodies(ctx, w, keys)
	}
	return from.Export(ctx, w, keys)
}
