package policy

import (
	"fmt"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/catalogue"
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
	group := uid(typeAction, agent+"/"+grant)
	w.action = cedar.Entity{UID: uid(typeAction, qualified), Parents: cedar.NewEntityUIDSet(group)}
	w.principals = e.index.closure(append(parents, w.user.UID))
	w.actions = e.index.closure([]cedar.EntityUID{w.action.UID, group})
	return w, ""
}

// about completes a world with what the question is about: a resource, or the
// agent itself where r is nil.
func (e *Engine) about(w world, agent string, r *Resource) (world, string) {
	of := uid(typeAgent, agent)
	if r == nil {
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
	w.collection = cedar.Entity{UID: uid(typeCollection, name), Parents: cedar.NewEntityUIDSet(of)}
	w.resource = cedar.Entity{
		UID: uid(typeResource, name+"/"+r.ID), Parents: cedar.NewEntityUIDSet(w.collection.UID),
		Attributes: cedar.NewRecord(cedar.RecordMap{"attributes": attributes}),
	}
	w.resources = e.index.closure([]cedar.EntityUID{w.resource.UID, w.collection.UID, of})
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
