package config_test

import (
	"strings"
	"testing"
)

func TestUnknownVariablesAreRefused(t *testing.T) {
	for variable, near := range map[string]string{
		"POWERBOX_ISUER_URL=http://a.example": `did you mean "POWERBOX_ISSUER_URL"?`,
		"POWERBOX_LISTENN=127.0.0.1:1":        `did you mean "POWERBOX_LISTEN"?`,
		"POWERBOX_URL=http://a.example":       "the nearest of ",
		"POWERBOX_TOKEN=x":                    "the nearest of ",
		"POWERBOX_PORT=8700":                  "the nearest of ",
	} {
		name, value, _ := strings.Cut(variable, "=")
		err := load("{}", variable)
		if err == nil || !strings.Contains(err.Error(), name+": there is no such setting") || !strings.Contains(err.Error(), near) {
			t.Errorf("%s: %v", variable, err)
		} else if len(value) > 1 && strings.Contains(err.Error(), value) {
			t.Errorf("%s: the message has the value: %v", variable, err)
		}
	}
}

// Kubernetes gives a pod variables of each service that begins with powerbox.
func TestVariablesOfOtherUsesAreNoSettings(t *testing.T) {
	for _, variable := range []string{
		"POWERBOX_SERVICE_HOST=10.0.0.1", "POWERBOX_SERVICE_PORT=8700", "POWERBOX_SERVICE_PORT_HTTP=8700", "POWERBOX_PORT=tcp://10.0.0.1:8700", "POWERBOX_PORT_8700_TCP=tcp://10.0.0.1:8700",
		"POWERBOX_PORT_8700_TCP_ADDR=10.0.0.1", "POWERBOX_GATEWAY_SERVICE_HOST=10.0.0.1", "POWERBOX_ISSUER_PORT=tcp://10.0.0.1:8700", "POWERBOX_OPERATOR_TOKEN=x", "POWERBOX_SESSION=x", "HOME=/root",
	} {
		if err := load("{}", variable); err != nil && strings.Contains(err.Error(), "no such setting") {
			t.Errorf("%s: %v", variable, err)
		}
	}
}
