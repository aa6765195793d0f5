package powerbox

import "testing"

// TestATK163_URIsWithOneReading refuses URIs that the URL class of JavaScript or pydantic
// rewrites, and admits those that servers name.
func TestATK163_URIsWithOneReading(t *testing.T) {
	for _, uri := range []string{
		"file:///a", "file:///public/a%20b.txt", "file:///C:/notes", "file://server/share", "file:///a?x=../y#z",
		"https://host.example/", "https://host.example:8443/a//b?q=1", "http://127.0.0.1/x", "http://[::1]:8080/x",
		"greeting://Alice", "greeting://Alice%20Lee", "config://app", "ui://widget/view.html", "urn:isbn:0451450523", "memo:a/b",
		"postgres://reader:word@db:5432/public/users", "repo://owner/name/src%2Findex.js", "foo:///a", "foo://h/?q='a'", "note://[::1]/a", "a:",
		"foo:/%C3%9Cbersicht",
	} {
		if err := CheckURI(uri); err != nil {
			t.Errorf("ATK-163 %s: %v; want it admitted", uri, err)
		}
	}
	for what, uri := range map[string]string{
		"nothing": "", "no scheme": "/etc/passwd", "a scheme in upper case": "FILE:///a", "a space before": " file:///a", "a space": "file:///a b",
		"a dot segment": "file:///public/../a", "a dot": "file:///public/./a", "one at the end": "file:///public/..", "an escaped dot": "file:///public/%2e%2E/a",
		"dots between escaped slashes": "file:///public/..%2Fa", "dots behind an escaped backslash": "file:///public/x%5c..", "dots as the host": "note://../a", "dots without an authority": "memo:../a",
		"a backslash": `file:///public\..\a`, "a tab": "file:///public/.\t./a", "a line end": "file:///a\n", "a mark": "\uFEFFfile:///a", "a letter beyond ASCII": "file:///Übersicht",
		"an escaped letter": "file:///s%61laries", "an escaped control": "file:///a%00b", "half an escape": "file:///a%2", "no escape": "file:///a%zz",
		"one slash": "file:/a", "no slash": "https:host.example/", "many slashes": "file:////a", "this machine": "file://localhost/a", "a drive behind a host": "file://h/C:/a",
		"a port of a file": "file://h:1/a", "no path": "https://host.example", "a host in upper case": "https://Host.example/", "no host": "https:///a",
		"a default port": "https://host.example:443/", "a port with zeros": "foo://h:080/", "no port": "foo://h:/", "a port without a host": "foo://:80/",
		"a host in numbers": "http://0x7f.1/", "an address in another form": "http://[::ffff:1.2.3.4]/", "an address with zeros": "foo://[0:0::1]/", "an escape in a host": "http://h%20st/",
		"a user": "https://user@host.example/", "an empty user": "foo://@h/", "an empty password": "foo://u:@h/", "two passwords": "foo://a:b:c@h/", "two users": "foo://a@b@h/",
		"brackets in a host": "foo://h[1]/", "a quotation mark in a query": "https://host.example/?q='a'", "a brace": "file:///{path}",
	} {
		if err := CheckURI(uri); err == nil {
			t.Errorf("ATK-163 %s: %s is admitted; want it refused", what, uri)
		}
	}
}
