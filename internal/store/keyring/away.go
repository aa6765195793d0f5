package keyring

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/store/keeper"
	"github.com/powerbox-project/powerbox/token"
)

// away makes the signing keys that are not files. The file of such a key holds a reference
// to it, so names, rotation and the comparison with the recorded keys are those of files.
type away struct {
	keeper   keeper.Keeper
	patience time.Duration          // for a signature
	stays    func(name string) bool // which keys stay files
}

// reference is what the file of a key holds that is elsewhere. It holds no secret.
type reference struct {
	Kind string `json:"kept_by"` // exec or vault
	keeper.Made
}

// Away has the signing keys that are made from now on kept by a keeper, and opens those
// that it keeps. stays says which stay files. It is called before keys are used.
func (r *Ring) Away(k keeper.Keeper, patience time.Duration, stays func(name string) bool) {
	r.away = &away{k, patience, stays}
}

// Close ends the keeper.
func (r *Ring) Close() error {
	if r == nil || r.away == nil {
		return nil
	}
	return r.away.keeper.Close()
}

// kindOf is the first word of what a keeper says it is.
func kindOf(k keeper.Keeper) string {
	kind, _, _ := strings.Cut(k.String(), " ")
	return kind
}

// isReference reports whether a file's text refers to a key that is elsewhere.
func isReference(data []byte) bool { return bytes.HasPrefix(data, []byte(`{"kept_by":`)) }

// readReference reads such a text.
func readReference(data []byte) (ref reference, err error) {
	if err := json.Unmarshal(data, &ref); err != nil || ref.Public.Key == nil {
		return ref, errors.New("it is damaged; want kept_by, key and public")
	}
	return ref, nil
}

// Where tells of what a key file holds where the key is and its thumbprint. ok is false
// for a file that holds the key itself.
func Where(data []byte) (where, thumbprint string, ok bool) {
	if !isReference(data) {
		return "", "", false
	}
	ref, err := readReference(data)
	if err != nil {
		return "", "", false
	}
	return ref.Kind + " " + ref.Reference, keeper.Thumbprint(ref.Public), true
}

// makingTime is how long a keeper may take to make a key.
const makingTime = 20 * time.Second

// awayFrom reports whether a key of that name is made by the keeper.
func (r *Ring) awayFrom(name string) bool {
	return r.away != nil && !r.away.stays(strings.TrimPrefix(name, "agent-")) && !r.away.stays(name)
}

// makeAway has the keeper make a key, and returns what its file holds.
func (r *Ring) makeAway(name string, algorithms ...string) ([]byte, error) {
	// A key takes longer to make than a signature.
	ctx, cancel := context.WithTimeout(context.Background(), max(r.away.patience, makingTime))
	defer cancel()
	made, err := r.away.keeper.Create(ctx, name, algorithms)
	if err != nil {
		return nil, fmt.Errorf("%s: %w. To keep this key in a file, list %q under files of the signer", r.away.keeper, err, strings.TrimPrefix(name, "agent-"))
	}
	key, err := keeper.NewKey(r.away.keeper, made, r.away.patience)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reference{kindOf(r.away.keeper), key.Made()})
}

// open returns the key that a reference names. One that still signs must be there.
func (r *Ring) open(name string, data []byte, signs bool) (*keeper.Key, error) {
	path := filepath.Join(r.dir, name)
	ref, err := readReference(data)
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", path, err)
	}
	if r.away == nil || kindOf(r.away.keeper) != ref.Kind {
		return nil, fmt.Errorf("keys: %s is kept by %s; name its file (issuer.signer_file, --signer-file) with %s in it", path, ref.Kind, ref.Kind)
	}
	key, err := keeper.NewKey(r.away.keeper, ref.Made, r.away.patience)
	if err == nil && signs {
		err = key.Confirm()
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", path, err)
	}
	return key, nil
}

// signing returns the key of a file that is elsewhere, or nil and what the file holds.
func (r *Ring) signing(file string, algorithms []string, generate func() ([]byte, error)) (data []byte, key *keeper.Key, err error) {
	// A rotation names files after times, which say nothing at the keeper.
	name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(file, ".jwk"), ".secret"), nextMark)
	data, err = r.load(file, func() ([]byte, error) {
		if r.awayFrom(name) {
			return r.makeAway(name, algorithms...)
		}
		return generate()
	})
	if err != nil || !isReference(data) {
		return data, nil, err
	}
	key, err = r.open(file, data, !strings.Contains(file, oldMark))
	return nil, key, err
}

// agentSigner is an issuing key of a keeper.
type agentSigner struct {
	*keeper.Key
	public token.PublicKey
}

func newAgentSigner(k *keeper.Key) (token.Signer, error) {
	jwk, err := k.Made().Public.MarshalJSON()
	if err != nil {
		return nil, err
	}
	public, err := token.ParsePublicKey(jwk)
	return agentSigner{k, public}, err
}

// Public implements [token.Signer].
func (s agentSigner) Public() token.PublicKey { return s.public }

// Sign implements [token.Signer].
func (s agentSigner) Sign(input []byte) ([]byte, error) {
	if s.public.Algorithm() == token.ES256 {
		sum := sha256.Sum256(input)
		input = sum[:]
	}
	return s.SignRaw(input)
}
