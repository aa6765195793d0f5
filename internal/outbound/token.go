package outbound

import (
	"fmt"
	"os"
	"strings"

	"github.com/powerbox-project/powerbox/internal/config"
)

// ServiceToken reads the bearer token of a service, "" where there is none.
func ServiceToken(file config.Path) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(string(file))
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || len(token) > 16<<10 || strings.ContainsAny(token, " \r\n") {
		return "", fmt.Errorf("token_file: %s holds no bearer token; want it alone in the file", file)
	}
	return token, nil
}
