package evidence

// The action types of records that this library writes or reads. A program that writes
// records has further ones.
const (
	ActionKeyUse       = "key.use"       // an agent began to sign with a key
	ActionKeyRotate    = "key.rotate"    // a key of an agent replaced another
	ActionGatewayClose = "gateway.close" // a remote gateway ended, with its chains
	ActionHandoff      = "guard.handoff" // one agent hands a conversation to another
	ActionGap          = "evidence.gap"  // calls were decided without a record
)
