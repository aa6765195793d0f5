package agentcard

// dialects are versions of the protocol whose cards differ.
type dialects uint8

const (
	in03   dialects = 1 << iota // 0.3 and before
	in10                        // 1.0
	ours                        // of the contract: neither, on the way into both
	either = in03 | in10
)

func (d dialects) String() string {
	switch d {
	case in03:
		return "A2A 0.3"
	case in10:
		return "A2A 1.0"
	case ours:
		return "the capability contract"
	default:
		return "A2A"
	}
}

// shape is what the value of a member is.
type shape uint8

const (
	text       shape = iota // a string
	flag                    // true or false
	texts                   // an array of strings
	object                  // an object of a form
	objects                 // an array of them
	dictionary              // an object whose values are of a form
	textMap                 // an object whose values are strings
	listMaps                // an array of objects whose values are arrays of strings
	free                    // an object of any content
)

// field is a member that the protocol has. Required and known are of dialects,
// since cards of both exist.
type field struct {
	name     string // in the JSON form
	other    string // in the schema, "" where it is the same; some writers use it
	shape    shape
	of       *form
	known    dialects
	required dialects
	presence bool // an explicit default is not the same as absence (proto3 optional)
}

// form is an object that the protocol has.
type form struct {
	name   string
	oneof  bool // exactly one member
	fields []field
}

// find returns the field of a name, in either spelling.
func (f *form) find(name string) (field, bool) {
	for _, c := range f.fields {
		if name == c.name || c.other != "" && name == c.other {
			return c, true
		}
	}
	return field{}, false
}

// names are both spellings of a field.
func (c field) names() []string {
	if c.other == "" {
		return []string{c.name}
	}
	return []string{c.name, c.other}
}

// The forms, in the order of a2a.proto of 1.0, then what 0.3 has (its
// agent card, section 5.5), then what the contract adds.
var (
	providerForm = &form{name: "AgentProvider", fields: []field{
		{name: "url", known: either, required: either},
		{name: "organization", known: either, required: either},
	}}
	interfaceForm = &form{name: "AgentInterface", fields: []field{
		{name: "url", known: either, required: either},
		{name: "protocolBinding", other: "protocol_binding", known: in10, required: in10},
		{name: "tenant", known: in10},
		{name: "protocolVersion", other: "protocol_version", known: in10, required: in10},
		{name: "protocolVersions", other: "protocol_versions", shape: texts, known: ours},
	}}
	olderInterfaceForm = &form{name: "AgentInterface", fields: []field{
		{name: "url", known: in03, required: in03},
		{name: "transport", known: in03, required: in03},
	}}
	extensionForm = &form{name: "AgentExtension", fields: []field{
		{name: "uri", known: either, required: either}, // 4.4.4 has it as what identifies the extension
		{name: "description", known: either},
		{name: "required", shape: flag, known: either},
		{name: "params", shape: free, known: either},
	}}
	capabilitiesForm = &form{name: "AgentCapabilities", fields: []field{
		{name: "streaming", shape: flag, known: either, presence: true},
		{name: "pushNotifications", other: "push_notifications", shape: flag, known: either, presence: true},
		{name: "extensions", shape: objects, of: extensionForm, known: either},
		{name: "extendedAgentCard", other: "extended_agent_card", shape: flag, known: in10, presence: true},
		{name: "stateTransitionHistory", shape: flag, known: in03},
		{name: "pauseResume", other: "pause_resume", shape: flag, known: ours},
		{name: "streamingMessage", other: "streaming_message", shape: flag, known: ours},
		{name: "contextReuse", other: "context_reuse", shape: flag, known: ours},
		{name: "multiTenant", other: "multi_tenant", shape: flag, known: ours},
		{name: "messageHistoryInjection", other: "message_history_injection", shape: flag, known: ours},
		{name: "artifactStreaming", other: "artifact_streaming", shape: flag, known: ours},
	}}
	requirementForm = &form{name: "SecurityRequirement", fields: []field{
		{name: "schemes", shape: dictionary, of: &form{name: "StringList", fields: []field{{name: "list", shape: texts, known: in10}}}, known: in10},
	}}
	skillForm = &form{name: "AgentSkill", fields: []field{
		{name: "id", known: either, required: either},
		{name: "name", known: either, required: either},
		{name: "description", known: either, required: either},
		{name: "tags", shape: texts, known: either, required: either},
		{name: "examples", shape: texts, known: either},
		{name: "inputModes", other: "input_modes", shape: texts, known: either},
		{name: "outputModes", other: "output_modes", shape: texts, known: either},
		{name: "securityRequirements", other: "security_requirements", shape: objects, of: requirementForm, known: in10},
		{name: "security", shape: listMaps, known: in03},
	}}
	signatureForm = &form{name: "AgentCardSignature", fields: []field{
		{name: "protected", known: either, required: either},
		{name: "signature", known: either, required: either},
		{name: "header", shape: free, known: either},
	}}
	cardForm = &form{name: "AgentCard", fields: []field{
		{name: "name", known: either, required: either},
		{name: "description", known: either, required: either},
		{name: "supportedInterfaces", other: "supported_interfaces", shape: objects, of: interfaceForm, known: in10, required: in10},
		{name: "provider", shape: object, of: providerForm, known: either},
		{name: "version", known: either, required: either},
		{name: "documentationUrl", other: "documentation_url", known: either, presence: true},
		{name: "capabilities", shape: object, of: capabilitiesForm, known: either, required: either},
		{name: "securitySchemes", other: "security_schemes", shape: dictionary, of: schemeForm, known: either},
		{name: "securityRequirements", other: "security_requirements", shape: objects, of: requirementForm, known: in10},
		{name: "defaultInputModes", other: "default_input_modes", shape: texts, known: either, required: either},
		{name: "defaultOutputModes", other: "default_output_modes", shape: texts, known: either, required: either},
		{name: "skills", shape: objects, of: skillForm, known: either, required: either},
		{name: "signatures", shape: objects, of: signatureForm, known: either},
		{name: "iconUrl", other: "icon_url", known: either, presence: true},

		{name: "url", known: in03, required: in03},
		{name: "protocolVersion", known: in03, required: in03},
		{name: "preferredTransport", known: in03},
		{name: "additionalInterfaces", shape: objects, of: olderInterfaceForm, known: in03},
		{name: "security", shape: listMaps, known: in03},
		{name: "supportsAuthenticatedExtendedCard", shape: flag, known: in03},

		{name: "minProtocolVersion", other: "min_protocol_version", known: ours},
		{name: "maxProtocolVersion", other: "max_protocol_version", known: ours},
	}}
)

// The security schemes of 1.0.
var (
	authorizationCodeForm = &form{name: "AuthorizationCodeOAuthFlow", fields: []field{
		{name: "authorizationUrl", other: "authorization_url", known: either, required: either},
		{name: "tokenUrl", other: "token_url", known: either, required: either},
		{name: "refreshUrl", other: "refresh_url", known: either},
		{name: "scopes", shape: textMap, known: either, required: either},
		{name: "pkceRequired", other: "pkce_required", shape: flag, known: in10},
	}}
	clientCredentialsForm = &form{name: "ClientCredentialsOAuthFlow", fields: []field{
		{name: "tokenUrl", other: "token_url", known: either, required: either},
		{name: "refreshUrl", other: "refresh_url", known: either},
		{name: "scopes", shape: textMap, known: either, required: either},
	}}
	deviceCodeForm = &form{name: "DeviceCodeOAuthFlow", fields: []field{
		{name: "deviceAuthorizationUrl", other: "device_authorization_url", known: in10, required: in10},
		{name: "tokenUrl", other: "token_url", known: in10, required: in10},
		{name: "refreshUrl", other: "refresh_url", known: in10},
		{name: "scopes", shape: textMap, known: in10, required: in10},
	}}
	implicitForm = &form{name: "ImplicitOAuthFlow", fields: []field{
		{name: "authorizationUrl", other: "authorization_url", known: either},
		{name: "refreshUrl", other: "refresh_url", known: either},
		{name: "scopes", shape: textMap, known: either},
	}}
	passwordForm = &form{name: "PasswordOAuthFlow", fields: []field{
		{name: "tokenUrl", other: "token_url", known: either},
		{name: "refreshUrl", other: "refresh_url", known: either},
		{name: "scopes", shape: textMap, known: either},
	}}
	flowFields = []field{
		{name: "authorizationCode", other: "authorization_code", shape: object, of: authorizationCodeForm, known: either},
		{name: "clientCredentials", other: "client_credentials", shape: object, of: clientCredentialsForm, known: either},
		{name: "implicit", shape: object, of: implicitForm, known: either},
		{name: "password", shape: object, of: passwordForm, known: either},
		{name: "deviceCode", other: "device_code", shape: object, of: deviceCodeForm, known: in10},
	}
	flowsForm  = &form{name: "OAuthFlows", oneof: true, fields: flowFields}
	schemeForm = &form{name: "SecurityScheme", oneof: true, fields: []field{
		{name: "apiKeySecurityScheme", other: "api_key_security_scheme", shape: object, known: in10, of: &form{name: "APIKeySecurityScheme", fields: []field{
			{name: "description", known: in10},
			{name: "location", known: in10, required: in10},
			{name: "name", known: in10, required: in10},
		}}},
		{name: "httpAuthSecurityScheme", other: "http_auth_security_scheme", shape: object, known: in10, of: &form{name: "HTTPAuthSecurityScheme", fields: []field{
			{name: "description", known: in10},
			{name: "scheme", known: in10, required: in10},
			{name: "bearerFormat", other: "bearer_format", known: in10},
		}}},
		{name: "oauth2SecurityScheme", other: "oauth2_security_scheme", shape: object, known: in10, of: &form{name: "OAuth2SecurityScheme", fields: []field{
			{name: "description", known: in10},
			{name: "flows", shape: object, of: flowsForm, known: in10, required: in10},
			{name: "oauth2MetadataUrl", other: "oauth2_metadata_url", known: in10},
		}}},
		{name: "openIdConnectSecurityScheme", other: "open_id_connect_security_scheme", shape: object, known: in10, of: &form{name: "OpenIdConnectSecurityScheme", fields: []field{
			{name: "description", known: in10},
			{name: "openIdConnectUrl", other: "open_id_connect_url", known: in10, required: in10},
		}}},
		{name: "mtlsSecurityScheme", other: "mtls_security_scheme", shape: object, known: in10, of: &form{name: "MutualTlsSecurityScheme", fields: []field{
			{name: "description", known: in10},
		}}},
	}}
)

// olderSchemes are the security schemes of 0.3 by their type, which are those of
// OpenAPI 3.
var olderSchemes = map[string]*form{
	"apiKey": {name: "APIKeySecurityScheme", fields: []field{
		{name: "type", known: in03},
		{name: "description", known: in03},
		{name: "in", known: in03, required: in03},
		{name: "name", known: in03, required: in03},
	}},
	"http": {name: "HTTPAuthSecurityScheme", fields: []field{
		{name: "type", known: in03},
		{name: "description", known: in03},
		{name: "scheme", known: in03, required: in03},
		{name: "bearerFormat", known: in03},
	}},
	"oauth2": {name: "OAuth2SecurityScheme", fields: []field{
		{name: "type", known: in03},
		{name: "description", known: in03},
		{name: "flows", shape: object, of: &form{name: "OAuthFlows", fields: flowFields}, known: in03, required: in03},
		{name: "oauth2MetadataUrl", known: in03},
	}},
	"openIdConnect": {name: "OpenIdConnectSecurityScheme", fields: []field{
		{name: "type", known: in03},
		{name: "description", known: in03},
		{name: "openIdConnectUrl", known: in03, required: in03},
	}},
	"mutualTLS": {name: "MutualTLSSecurityScheme", fields: []field{
		{name: "type", known: in03}, {name: "description", known: in03},
	}},
}
