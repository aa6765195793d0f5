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
	user, action, resource, collection cedar.Entity
	// The closures of the three parts of the request, as the index has them.
	principals, actions, resources []symbol
}

// Get implements [cedar.EntityGetter]. Groups, roles, grants and agents have
// neither parents nor attributes.
func (w *world) Get(id cedar.EntityUID) (cedar.Entity, bool) {
	for _, e := range [...]*cedar.Entity{&w.user, &w.resource, &w.collection, &w.action} {
		if e.UID == id && id.Type != "" {
			return *e, true
		}
	}
	switch id.Type {
	case typeGroup, typeRole, typeAgent, typeAction:
		return cedar.Entity{UID: id}, true
	}
	return cedar.Entity{}, false
}

// ancestor is an entity that questions share, with its closure.
type ancestor struct {
	entity  cedar.Entity
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
	attributes, reason := typed(p.Attributes, e.vocabulary.attributes, true)
	if reason != "" {
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
	w.user = cedar.Entity{
		UID: uid(typeUser, p.ID), Parents: cedar.NewEntityUIDSet(parents...),
		Attributes: cedar.NewRecord(cedar.RecordMap{"id": cedar.String(p.ID), "attributes": attributes}),
	}
	w.principals = e.index.closure(append(parents, w.user.UID))
	w.action, w.actions = known.entity, known.closure
	return w, ""
}

// about completes a world with what the question is about: a resource, or the
// agent itself where r is nil.
func (e *Engine) about(w world, agent string, r *Resource) (world, string) {
	if r == nil {
		of := uid(typeAgent, agent)
		w.resource = cedar.Entity{UID: of}
		w.resources = e.index.closure([]cedar.EntityUID{of})
		return w, ""
	}
	name := r.Agent + "/" + r.Collection
	collection, known := e.vocabulary.collections[name]
	if r.Agent != agent || !known || r.ID == "" {
		return w, fmt.Sprintf("the resource is in no known collection of agent %q", agent)
	}
	attributes, reason := typed(r.Attributes, collection.Attributes, false)
	if reason != "" {
		return w, "the resource's " + reason
	}
	in := e.standing.collections[name]
	w.collection = in.entity
	w.resource = cedar.Entity{
		UID: uid(typeResource, name+"/"+r.ID), Parents: cedar.NewEntityUIDSet(w.collection.UID),
		Attributes: cedar.NewRecord(cedar.RecordMap{"attributes": attributes}),
	}
	w.resources = e.index.extend(slices.Clip(in.closure), w.resource.UID)
	return w, ""
}

// typed returns attributes as Cedar has them. The reason says which one, the
// first by name, is not as declared; it is "" where all are. Undeclared
// attributes are left out where open says so: no policy can speak about them.
func typed(attributes map[string]powerbox.Value, declared map[string]catalogue.Attribute, open bool) (r cedar.Record, reason string) {
	wrong := ""
	for name, a := range declared {
		if _, ok := attributes[name]; !ok && a.Required && (wrong == "" || name < wrong) {
			wrong = name
		}
	}
	fields := make(cedar.RecordMap, len(attributes))
	for name, v := range attributes {
		want, ok := declared[name]
		if !ok && open {
			continue
		}
		t, valued := catalogue.TypeOf(v)
		if !ok || !valued || t != want.Type {
			if wrong == "" || name < wrong {
				wrong = name
			}
			continue
		}
		fields[cedar.String(name)] = cedarValue(v, t)
	}
	if want, ok := declared[wrong]; ok {
		return r, fmt.Sprintf("attribute %q is not as declared; want %s", wrong, want.Type)
	}
	if wrong != "" {
		return r, fmt.Sprintf("attribute %q is not declared", wrong)
	}
	if len(fields) == 0 {
		return nothing, ""
	}
	return cedar.NewRecord(fields), ""
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
