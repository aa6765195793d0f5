package a2a

import "fmt"

// CardSignature is one entry of a card's signatures (A2A 1.0, section 8.4).
type CardSignature struct {
	Protected string // base64url of the protected header
	Signature string // base64url
}

// Signatures returns what a card is signed with, in its order.
func Signatures(raw []byte) ([]CardSignature, error) {
	c, err := openCard(raw)
	if err != nil {
		return nil, err
	}
	objects, err := readObjects("card.signatures", c.top.get("signatures"), newNames("protected", "signature", "header"))
	if err != nil {
		return nil, err
	}
	all := make([]CardSignature, len(objects))
	for i, o := range objects {
		all[i] = CardSignature{Protected: o.text("protected"), Signature: o.text("signature")}
	}
	return all, nil
}

// WithSignatures returns a card with these signatures and no others. Every
// other member stays as it was written.
func WithSignatures(raw []byte, signatures ...CardSignature) ([]byte, error) {
	o, err := readObject(raw)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	all := make([][]byte, len(signatures))
	for i, s := range signatures {
		var entry rawObject
		entry.set("protected", quote(s.Protected))
		entry.set("signature", quote(s.Signature))
		all[i] = entry.bytes()
	}
	o.set("signatures", writeArray(all))
	return o.bytes(), nil
}
