package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox"
)

// devSession is how long the session of a built-in user lasts from each use.
const devSession = 12 * time.Hour

// devUser is a built-in user, known by the hash of the token so that comparing
// takes the same time for every token.
type devUser struct {
	DevUser
	hash [sha256.Size]byte
}

func devUsers(users []DevUser) ([]devUser, error) {
	var known []devUser
	for i, u := range users {
		switch {
		case u.Name == "":
			return nil, fmt.Errorf("dev user %d has no name", i+1)
		case len(u.Token) < minimumDevToken:
			return nil, fmt.Errorf("dev user %q: the token is too short; want at least %d bytes", u.Name, minimumDevToken)
		}
		hash := sha256.Sum256([]byte(u.Token))
		for _, other := range known {
			if other.Name == u.Name || other.hash == hash {
				return nil, fmt.Errorf("dev users %q and %q have the same name or token", other.Name, u.Name)
			}
		}
		u.Token = ""
		known = append(known, devUser{u, hash})
	}
	return known, nil
}

// devSession returns the session of the built-in user with that token. It
// looks at all of them, so that time does not tell which one came close.
func (a *Authenticator) devSession(raw string, now time.Time) (session, bool) {
	hash := sha256.Sum256([]byte(raw))
	var found *devUser
	for i := range a.dev {
		if subtle.ConstantTimeCompare(a.dev[i].hash[:], hash[:]) == 1 {
			found = &a.dev[i]
		}
	}
	if found == nil {
		return session{}, false
	}
	attributes := make(map[string]powerbox.Value, len(found.Attributes))
	for name, v := range found.Attributes {
		attributes[name] = v
	}
	return session{
		caller: Caller{
			Principal:      "user:" + found.Name,
			Groups:         found.Groups,
			Roles:          found.Roles,
			Attributes:     attributes,
			SessionExpires: now.Add(devSession),
			Authenticated:  now, // made for the moment, as the session is
		},
		client: "dev:" + found.Name,
	}, true
}
