package policy

import (
	"fmt"
	"slices"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// The entity types of the schema.
const (
	typeAction     = "Action"
	typeAgent      = "Agent"
	typeCollection = "Collection"
	typeGroup      = "Group"
	typeResource   = "Resource"
	typeRole       = "Role"
	typeUser       = "User"
)

func uid(entityType cedar.EntityType, id string) cedar.EntityUID {
	return cedar.NewEntityUID(entityType, cedar.String(id))
}

// world is the entities of one question. It implements [cedar.EntityGetter]
// without a map.
type world struct {
	user               *subject
	resource           subject
	action, collection cedar.Entity
	// The closures of the three parts of the request, as the index has them.
	principals, actions, resources []symbol
}

// subject is a user or a resource. Its entity is made when a condition asks for it: the
// index has answered for most scopes, and many conditions look at one of the two.
type subject struct {
	uid        cedar.EntityUID
	parents    []cedar.EntityUID
	attributes map[string]powerbox.Value // only as declared
	declared   map[string]catalogue.Attribute
	made       bool
	entity     cedar.Entity
}

// get returns the entity of s.
func (s *subject) get() cedar.Entity {
	if s.made {
		return s.entity
	}
	s.made, s.entity.UID = true, s.uid
	switch s.uid.Type {
	case typeUser:
		s.entity.Attributes = cedar.NewRecord(cedar.RecordMap{"id": s.uid.ID, "attributes": s.record()})
	case typeResource:
		s.entity.Attributes = cedar.NewRecord(cedar.RecordMap{"attributes": s.record()})
	}
	if len(s.parents) > 0 {
		s.entity.Parents = cedar.NewEntityUIDSet(s.parents...)
	}
	return s.entity
}

// record returns the attributes of s as Cedar has them. Undeclared ones are left out: no
// policy can speak about them.
func (s *subject) record() cedar.Record {
	fields := make(cedar.RecordMap, len(s.attributes))
	for name, v := range s.attributes {
		if want, ok := s.declared[name]; ok {
			fields[cedar.String(name)] = cedarValue(v, want.Type)
		}
	}
	if len(fields) == 0 {
		return nothing
	}
	return cedar.NewRecord(fields)
}

// Get implements [cedar.EntityGetter]. Groups, roles, grants and agents have
// neither parents nor attributes.
func (w *world) Get(id cedar.EntityUID) (cedar.Entity, bool) {
	switch id {
	case w.resource.uid:
		return w.resource.get(), true
	case w.user.uid:
		return w.user.get(), true
	case w.collection.UID:
		return w.collection, id.Type != ""
	case w.action.UID:
		return w.action, true
	}
	switch id.Type {
	case typeGroup, typeRole, typeAgent, typeAction:
		return cedar.Entity{UID: id}, true
	}
	return cedar.Entity{}, false
}

// request is the question itself.
func (w *world) request() cedar.Request {
	return cedar.Request{Principal: w.user.uid, Action: w.action.UID, Resource: w.resource.uid}
}

// ancestor is an entity that questions share, with its closure.
type ancestor struct {
	entity  cedar.Entity
	itself  []cedar.EntityUID // the entity, as the parent of another
	closure []symbol
}

// standing are the entities that are the same in all questions: operations by their
// qualified names, collections by theirs.
type standing struct{ operations, collections map[string]ancestor }

func newStanding(v *vocabulary, x *index) standing {
	s := standing{make(map[string]ancestor, len(v.offered)), make(map[string]ancestor, len(v.collections))}
	for qualified, op := range v.offered {
		s.operations[qualified] = x.below(uid(typeAction, qualified), uid(typeAction, op.agent+"/"+op.grant))
	}
	for name, c := range v.collections {
		s.collections[name] = x.below(uid(typeCollection, name), uid(typeAgent, c.Agent))
	}
	return s
}

// below is an entity with one parent and no attributes.
func (x *index) below(id, parent cedar.EntityUID) ancestor {
	return ancestor{
		cedar.Entity{UID: id, Parents: cedar.NewEntityUIDSet(parent), Attributes: nothing},
		[]cedar.EntityUID{id},
		x.closure([]cedar.EntityUID{id, parent}),
	}
}

// nothing is a record without attributes.
var nothing = cedar.NewRecord(nil)

// asking makes the part of a world that does not depend on the resource. The
// reason says why the question cannot be asked; it is "" where it can.
func (e *Engine) asking(p Principal, qualified, agent, grant string) (w world, reason string) {
	if len(e.statements) == 0 {
		return w, "no policies are loaded"
	}
	op, ok := e.vocabulary.offered[qualified]
	if !ok || op.agent != agent || op.grant != grant {
		return w, fmt.Sprintf("operation %q is not offered by grant %q of agent %q", qualified, grant, agent)
	}
	if p.ID == "" {
		return w, "the principal has no id"
	}
	if reason := typed(p.Attributes, e.vocabulary.attributes, true); reason != "" {
		return w, "the principal's " + reason
	}
	known := e.standing.operations[qualified]
	parents := make([]cedar.EntityUID, 0, len(p.Groups)+len(p.Roles)+1)
	for _, g := range p.Groups {
		parents = append(parents, uid(typeGroup, g))
	}
	for _, r := range p.Roles {
		parents = append(parents, uid(typeRole, r))
	}
	w.user = &subject{uid: uid(typeUser, p.ID), parents: parents, attributes: p.Attributes, declared: e.vocabulary.attributes}
	w.principals = e.index.extend(e.index.closure(parents), w.user.uid)
	w.action, w.actions = known.entity, known.closure
	return w, ""
}

// about completes a world with what the question is about: a resource, or the
// agent itself where r is nil.
func (e *Engine) about(w world, agent string, r *Resource) (world, string) {
	if r == nil {
		w.resource = subject{uid: uid(typeAgent, agent)}
		w.resources = e.index.closure([]cedar.EntityUID{w.resource.uid})
		return w, ""
	}
	name := r.Agent + "/" + r.Collection
	collection, known := e.vocabulary.collections[name]
	if r.Agent != agent || !known || r.ID == "" {
		return w, fmt.Sprintf("the resource is in no known collection of agent %q", agent)
	}
	if reason := typed(r.Attributes, collection.Attributes, false); reason != "" {
		return w, "the resource's " + reason
	}
	in := e.standing.collections[name]
	w.collection = in.entity
	w.resource = subject{uid: uid(typeResource, name+"/"+r.ID), parents: in.itself, attributes: r.Attributes, declared: collection.Attributes}
	w.resources = e.index.extend(slices.Clip(in.closure), w.resource.uid)
	return w, ""
}

// typed says which attribute, the first by name, is not as declared; it is "" where all
// are. Where open says so, undeclared attributes are let be.
func typed(attributes map[string]powerbox.Value, declared map[string]catalogue.Attribute, open bool) (reason string) {
	wrong := ""
	for name, a := range declared {
		if _, ok := attributes[name]; !ok && a.Required && (wrong == "" || name < wrong) {
			wrong = name
		}
	}
	for name, v := range attributes {
		want, ok := declared[name]
		if !ok && open {
			continue
		}
		t, valued := catalogue.TypeOf(v)
		if (!ok || !valued || t != want.Type) && (wrong == "" || name < wrong) {
			wrong = name
		}
	}
	if want, ok := declared[wrong]; ok {
		return fmt.Sprintf("attribute %q is not as declared; want %s", wrong, want.Type)
	}
	if wrong != "" {
		return fmt.Sprintf("attribute %q is not declared", wrong)
	}
	return ""
}

func cedarValue(v powerbox.Value, t catalogue.Type) cedar.Value {
	switch t {
	case catalogue.TypeBoolean:
		b, _ := v.Truth()
		return cedar.Boolean(b)
	case catalogue.TypeInteger:
		d, _ := v.Decimal()
		n, _ := d.Int64()
		return cedar.Long(n)
	case catalogue.TypeTexts:
		elements, _ := v.Elements()
		texts := make([]cedar.Value, len(elements))
		for i, e := range elements {
			texts[i] = cedarValue(e, catalogue.TypeText)
		}
		return cedar.NewSet(texts...)
	default:
		s, _ := v.Text()
		return cedar.String(s)
	}
}
