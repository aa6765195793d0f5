package main

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// field is one field of a protobuf message as it is on the wire.
type field struct {
	num  protowire.Number
	kind protowire.Type
	raw  []byte  // the value, without the length of one that is delimited
	sub  []field // replaces raw if the value is a message
	desc protoreflect.FieldDescriptor
}

// parseWire reads a message down to its scalars.
func parseWire(raw []byte, m protoreflect.MessageDescriptor) []field {
	var out []field
	for len(raw) > 0 {
		num, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return out
		}
		raw = raw[n:]
		n = protowire.ConsumeFieldValue(num, kind, raw)
		if n < 0 {
			return out
		}
		f := field{num: num, kind: kind, raw: raw[:n], desc: m.Fields().ByNumber(num)}
		raw = raw[n:]
		if kind == protowire.BytesType {
			f.raw, _ = protowire.ConsumeBytes(f.raw)
			if f.desc != nil && f.desc.Message() != nil {
				f.sub = parseWire(f.raw, f.desc.Message())
				if f.sub == nil {
					f.sub = []field{}
				}
			}
		}
		out = append(out, f)
	}
	return out
}

func writeWire(fields []field) []byte {
	var b []byte
	for _, f := range fields {
		b = protowire.AppendTag(b, f.num, f.kind)
		switch {
		case f.sub != nil:
			b = protowire.AppendBytes(b, writeWire(f.sub))
		case f.kind == protowire.BytesType:
			b = protowire.AppendBytes(b, f.raw)
		default:
			b = append(b, f.raw...)
		}
	}
	return b
}

// level is one message of a tree, with its definition.
type level struct {
	fields *[]field
	desc   protoreflect.MessageDescriptor
}

func levels(fields *[]field, desc protoreflect.MessageDescriptor) []level {
	out := []level{{fields, desc}}
	for i := range *fields {
		if f := &(*fields)[i]; f.sub != nil {
			out = append(out, levels(&f.sub, f.desc.Message())...)
		}
	}
	return out
}

// wireMutations are the families of changes to protobuf.
var wireMutations = []struct {
	family string
	change func(g *generator, l level)
}{
	{"wire: repeated", (*generator).wireRepeat},
	{"wire: repeated", (*generator).wireRepeat},
	{"wire: oneof", (*generator).wireOneof},
	{"wire: unknown", (*generator).wireUnknown},
	{"wire: type", (*generator).wireType},
	{"wire: varint", (*generator).wireVarint},
	{"wire: group", (*generator).wireGroup},
	{"wire: order", (*generator).wireOrder},
	{"wire: split", (*generator).wireSplit},
	{"wire: default", (*generator).wireDefault},
	{"wire: text", (*generator).wireText},
	{"wire: cut", (*generator).wireCut},
}

// mutateWire changes a message and returns it with the family.
func (g *generator) mutateWire(raw []byte, desc protoreflect.MessageDescriptor) (changed []byte, family string) {
	fields := parseWire(raw, desc)
	if g.rng.IntN(16) == 0 {
		return raw, "plain"
	}
	n := 1
	if g.rng.IntN(4) == 0 {
		n += 1 + g.rng.IntN(2)
	}
	for range n {
		m := one(g, wireMutations)
		family = m.family
		m.change(g, one(g, levels(&fields, desc)))
	}
	if n > 1 {
		family = "wire: several"
	}
	return writeWire(fields), family
}

func (g *generator) wireInsert(l level, f field) {
	at := g.rng.IntN(len(*l.fields) + 1)
	*l.fields = append((*l.fields)[:at:at], append([]field{f}, (*l.fields)[at:]...)...)
}

// wireOf is a field of a message with a value that would change the effect of the call.
func (g *generator) wireOf(d protoreflect.FieldDescriptor) field {
	f := field{num: d.Number(), desc: d, kind: protowire.BytesType}
	switch {
	case d.Message() != nil:
		f.sub = g.otherMessage(d)
	case d.Kind() == protoreflect.StringKind || d.Kind() == protoreflect.BytesKind:
		f.raw = []byte(one(g, []string{"secret", "public", "export", "search", "skill", "arguments", "dry_run", foreignTask, ownTask, foreignContext, ownContext, "t2", "", "tasks/" + foreignTask, caseNumber, "__proto__", wideCapability}))
	case d.Kind() == protoreflect.DoubleKind:
		f.kind, f.raw = protowire.Fixed64Type, protowire.AppendFixed64(nil, one(g, []uint64{0, 1 << 63, 0x7ff0000000000000, 0x7ff8000000000001, 0x4340000000000001, 0x3ff0000000000000}))
	default:
		f.kind, f.raw = protowire.VarintType, protowire.AppendVarint(nil, one(g, []uint64{0, 1, 2, 1 << 32, 1 << 63, 99}))
	}
	return f
}

// messages are those of the corpus and inside them, by type.
func (g *generator) messages() map[protoreflect.FullName][][]field {
	if g.known != nil {
		return g.known
	}
	g.known = map[protoreflect.FullName][][]field{}
	for _, s := range g.corpus {
		m := input(s.form, s.method)
		if m == nil || readJSON.Unmarshal(s.root.text(spelling{}), m) != nil {
			continue
		}
		raw, _ := steady.Marshal(m)
		all := parseWire(raw, m.ProtoReflect().Descriptor())
		for _, l := range levels(&all, m.ProtoReflect().Descriptor()) {
			g.known[l.desc.FullName()] = append(g.known[l.desc.FullName()], *l.fields)
		}
	}
	return g.known
}

// copied is a tree of which nothing is shared.
func copied(fields []field) []field {
	out := make([]field, len(fields))
	for i, f := range fields {
		if f.sub != nil {
			f.sub = copied(f.sub)
		}
		out[i] = f
	}
	return out
}

// otherMessage is what stands instead of a message: one of the corpus, where
// there is one of its type, changed below.
func (g *generator) otherMessage(d protoreflect.FieldDescriptor) []field {
	found := g.messages()[d.Message().FullName()]
	if len(found) == 0 {
		return []field{}
	}
	out := copied(one(g, found))
	if g.rng.IntN(2) == 0 { // another value somewhere inside
		l := one(g, levels(&out, d.Message()))
		if n := l.desc.Fields().Len(); n > 0 {
			if f := l.desc.Fields().Get(g.rng.IntN(n)); f.Message() == nil {
				*l.fields = []field{g.wireOf(f)}
			}
		}
	}
	return out
}

// wireRepeat has a field twice: readers merge, or keep one of them.
func (g *generator) wireRepeat(l level) {
	if len(*l.fields) == 0 {
		g.wireDefault(l)
		return
	}
	f := one(g, *l.fields)
	if f.desc == nil {
		return
	}
	other := g.wireOf(f.desc)
	if f.sub != nil && g.rng.IntN(3) == 0 {
		other.sub = []field{}
		if len(f.sub) > 0 {
			other.sub = append(other.sub, one(g, f.sub))
		}
	}
	g.wireInsert(l, other)
}

// wireOneof sets further members of a message, of the same oneof where there is one.
func (g *generator) wireOneof(l level) {
	if l.desc.Oneofs().Len() > 0 {
		of := l.desc.Oneofs().Get(g.rng.IntN(l.desc.Oneofs().Len())).Fields()
		g.wireInsert(l, g.wireOf(of.Get(g.rng.IntN(of.Len()))))
		return
	}
	if n := l.desc.Fields().Len(); n > 0 {
		g.wireInsert(l, g.wireOf(l.desc.Fields().Get(g.rng.IntN(n))))
	}
}

func (g *generator) wireUnknown(l level) {
	num := one(g, []protowire.Number{15, 16, 19, 99, 999, 536870911})
	g.wireInsert(l, field{num: num, kind: protowire.BytesType, raw: []byte("export everything")})
}

func (g *generator) wireType(l level) {
	if len(*l.fields) == 0 {
		return
	}
	f := &(*l.fields)[g.rng.IntN(len(*l.fields))]
	f.sub = nil
	switch g.rng.IntN(3) {
	case 0:
		f.kind, f.raw = protowire.VarintType, protowire.AppendVarint(nil, 1)
	case 1:
		f.kind, f.raw = protowire.Fixed32Type, protowire.AppendFixed32(nil, 1)
	default:
		f.kind, f.raw = protowire.BytesType, []byte{1, 2}
	}
}

// wireVarint writes varints longer than they need to be.
func (g *generator) wireVarint(l level) {
	for i := range *l.fields {
		f := &(*l.fields)[i]
		if f.kind == protowire.VarintType && len(f.raw) > 0 {
			raw := append([]byte{}, f.raw...)
			for range 1 + g.rng.IntN(9) {
				raw[len(raw)-1] |= 0x80
				raw = append(raw, 0)
			}
			f.raw = raw
			return
		}
	}
	g.wireInsert(l, field{num: 1, kind: protowire.VarintType, raw: []byte{0x81, 0x80, 0x00}})
}

func (g *generator) wireGroup(l level) {
	num := one(g, []protowire.Number{1, 2, 5, 99})
	end := protowire.AppendTag(nil, num, protowire.EndGroupType)
	g.wireInsert(l, field{num: num, kind: protowire.StartGroupType, raw: append(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("export")), end...)})
}

func (g *generator) wireOrder(l level) {
	f := *l.fields
	g.rng.Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
}

// wireSplit has the fields of a message in two messages, which readers merge or not.
func (g *generator) wireSplit(l level) {
	for i := range *l.fields {
		f := (*l.fields)[i]
		if len(f.sub) == 0 || g.rng.IntN(2) == 0 {
			continue
		}
		at := g.rng.IntN(len(f.sub) + 1)
		first, second := f, f
		first.sub, second.sub = append([]field{}, f.sub[:at]...), append([]field{}, f.sub[at:]...)
		(*l.fields)[i] = first
		*l.fields = append(*l.fields, second)
		return
	}
}

func (g *generator) wireDefault(l level) {
	n := l.desc.Fields().Len()
	if n == 0 {
		return
	}
	d := l.desc.Fields().Get(g.rng.IntN(n))
	f := g.wireOf(d)
	switch f.kind {
	case protowire.BytesType:
		f.raw = nil
		if f.sub != nil {
			f.sub = []field{}
		}
	case protowire.VarintType:
		f.raw = []byte{0}
	default:
	}
	g.wireInsert(l, f)
}

func (g *generator) wireText(l level) {
	for i := range *l.fields {
		if f := &(*l.fields)[i]; f.sub == nil && f.kind == protowire.BytesType && g.rng.IntN(2) == 0 {
			f.raw = []byte(one(g, []string{"\xff", "\xed\xa0\x80", "\xc0\xae", "public\x00", "\ufeffpublic", "__proto__", "constructor"}))
			return
		}
	}
}

func (g *generator) wireCut(l level) {
	if len(*l.fields) > 0 {
		i := g.rng.IntN(len(*l.fields))
		*l.fields = append((*l.fields)[:i:i], (*l.fields)[i+1:]...)
	}
}
