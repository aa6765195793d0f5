package a2apb

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// WithoutCredentials is [a2a.Call.Body] for the message of a call in protobuf.
func WithoutCredentials(path string, message []byte, members *a2a.Members) ([]byte, error) {
	if !members.HasCredentials() {
		return message, nil
	}
	r, err := find(path)
	if err != nil || r.input == nil {
		return nil, fmt.Errorf("%s: the method is unknown", path)
	}
	m, err := read(r.input, message)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	field := m.Descriptor().Fields().ByName("metadata")
	if field == nil || !m.Has(field) {
		return message, nil
	}
	metadata, ok := m.Get(field).Message().Interface().(*structpb.Struct)
	if !ok {
		return nil, fmt.Errorf("%s: metadata is no Struct", path)
	}
	inside, beside := a2a.CredentialMembers()
	for _, name := range beside {
		delete(metadata.GetFields(), name)
	}
	ours := metadata.GetFields()[a2a.ExtensionURI].GetStructValue().GetFields()
	for _, name := range inside {
		delete(ours, name)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
}
