package issuer

import (
	"fmt"
	"strings"
)

// OtherLog says why a store cannot be gone on in whose checkpoint the key of the log origin has
// not signed. The name of a log is made of issuer.url, so that a server that moves to its public
// URL meets this; the key is then the right one, and only the name is another.
func OtherLog(origin string, checkpoint []byte) error {
	named, _, _ := strings.Cut(string(checkpoint), "\n")
	if named != origin {
		return fmt.Errorf("its evidence is the log %q, and this configuration's is %q: without evidence.origin that is the host and path of issuer.url, which has changed; "+
			"to continue it, set evidence.origin to %q", named, origin, named)
	}
	return fmt.Errorf("its checkpoint is not signed by the key of log %q; restore the key that belongs to it", origin)
}
