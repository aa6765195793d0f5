package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/superfly/macaroon"
	"github.com/superfly/macaroon/bundle"
	"github.com/superfly/macaroon/resset"
)

const macaroonLocation = "https://auth.example"

// files is a caveat on actions and path prefixes.
type files struct {
	Resources resset.ResourceSet[resset.Prefix, resset.Action]
}

// CaveatType implements macaroon.Caveat.
func (c *files) CaveatType() macaroon.CaveatType { return macaroon.CavMinUserDefined + 7 }

// Name implements macaroon.Caveat.
func (c *files) Name() string { return "Files" }

// Prohibits implements macaroon.Caveat.
func (c *files) Prohibits(a macaroon.Access) error {
	f, ok := a.(*fileAccess)
	if !ok {
		return macaroon.ErrInvalidAccess
	}
	return c.Resources.Prohibits(&f.path, f.action, "file")
}

type fileAccess struct {
	action resset.Action
	path   resset.Prefix
	now    time.Time
}

// GetAction implements resset.Access.
func (f *fileAccess) GetAction() resset.Action { return f.action }

// Now implements macaroon.Access.
func (f *fileAccess) Now() time.Time { return f.now }

// Validate implements macaroon.Access.
func (f *fileAccess) Validate() error { return nil }

// flyToken is superfly/macaroon's contestant. Its caveat type must be
// registered once per process.
type flyToken struct {
	key macaroon.SigningKey
	raw []byte
	now time.Time
}

func newFly(now time.Time, links int) (*flyToken, error) {
	f := &flyToken{key: macaroon.NewSigningKey(), now: now}
	m, err := macaroon.New([]byte("kid-1"), macaroonLocation, f.key)
	if err != nil {
		return nil, err
	}
	for i := range links {
		if err := m.Add(flyCaveats(now, i)...); err != nil {
			return nil, err
		}
	}
	if len(m.UnsafeCaveats.Caveats) != 2*links {
		return nil, errors.New("superfly/macaroon merged caveats")
	}
	f.raw, err = m.Encode()
	return f, err
}

// flyCaveats narrows. Equal caveats would be dropped, so no two hops are equal.
func flyCaveats(now time.Time, hop int) []macaroon.Caveat {
	set := resset.New(resset.ActionRead, resset.Prefix(narrowPrefix))
	switch {
	case hop == 0:
		set = resset.New(resset.ActionRead|resset.ActionWrite, resset.Prefix(rootPrefix))
	case hop > 1:
		set = resset.New(resset.ActionRead, resset.Prefix(narrowPrefix), resset.Prefix("/tmp/"+strconv.Itoa(hop)+"/"))
	}
	window := &macaroon.ValidityWindow{NotBefore: now.Add(-time.Hour).Unix(), NotAfter: now.Add(time.Hour).Unix() - int64(hop)}
	return []macaroon.Caveat{&files{set}, window}
}

func (f *flyToken) verify(action resset.Action) job {
	return repeat(func() error {
		m, err := macaroon.Decode(f.raw)
		if err != nil {
			return err
		}
		caveats, err := m.Verify(f.key, nil, nil)
		if err != nil {
			return err
		}
		return caveats.Validate(&fileAccess{action, requestPath, f.now})
	})
}

// cached is the same with superfly's own cache of verified tokens, which knows
// this one.
func (f *flyToken) cached(action resset.Action) (job, error) {
	header := macaroon.ToAuthorizationHeader(f.raw)
	cache := bundle.NewVerificationCache(bundle.WithKey([]byte("kid-1"), f.key, nil), time.Hour, 1024)
	j := repeat(func() error {
		b, err := bundle.ParseBundle(macaroonLocation, header)
		if err != nil {
			return err
		}
		if _, err := b.Verify(context.Background(), cache); err != nil {
			return err
		}
		return b.Validate(&fileAccess{action, requestPath, f.now})
	})
	return j, j.run()
}
