// Package policy answers what a principal may do, from Cedar policies that an
// operator writes. It is asked when a capability is issued, where its answer is
// met with everything else, and may veto a use.
//
// The laws:
//
//   - Nothing is permitted but by a policy. No policies, no permission.
//   - An error is a denial: a policy that cannot be evaluated, an attribute of
//     another type than declared, an unknown operation, agent or collection.
//   - A name that a policy gets wrong is found when it is loaded: operations,
//     grants, agents, collections, attributes, annotations. Groups, roles and
//     users belong to the identity provider and cannot be checked here.
//   - Policy subtracts. It never adds to what a grant offers.
//   - The index in front of Cedar changes no answer (ATK-26): it may only leave
//     out policies whose scope cannot match. Nothing is cached between
//     questions.
//
// A policy sees this world:
//
//	User::"alice"                  in Group::"finance", Role::"approver"
//	    .id, .attributes           attributes are optional: guard them with has
//	Resource::"AGENT/COLLECTION/ID" in Collection::"AGENT/COLLECTION" in Agent::"AGENT"
//	    .attributes                typed as the catalogue declares them
//	Action::"AGENT/GRANT/OPERATION" in Action::"AGENT/GRANT"
//
// A question that is about no resource has the Agent itself as its resource.
// Annotations that have an effect, on permits: @maximum_lifetime("30m") and
// @approval("human"). @id and @description are for people.
//
// Only experimental.go uses the experimental parts of cedar-go.
package policy
