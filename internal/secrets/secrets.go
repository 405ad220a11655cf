// Package secrets finds files that seem to hold secrets, by their names and by what they
// begin with, and keeps the list of those that captures of a directory have stored: so
// the user of each session can be told once.
//
// The list is beside the directory's stat cache (docs/reference/format.md §9). It is for warnings
// alone: one that is lost or damaged is an empty one.
package secrets

import (
	"bytes"
	"strings"
)

// A kind is a sort of file that holds secrets.
type kind struct {
	names string   // of such files, in lower case, with spaces between; "*.x" is all that end so
	signs []string // one of them is in the head of such a file; none: the name says it
}

var environment = &kind{".env .envrc", []string{"="}}

// kinds is the table of what is told. What git's own users put into .gitignore is not
// captured, so this is about what they forget.
var kinds = []*kind{
	environment, // and .env.*: see kindOf
	{"id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk *.pem *.key *.ovpn", []string{"PRIVATE KEY"}},
	{"*.asc", []string{"PGP PRIVATE KEY"}},
	{"*.ppk", []string{"PuTTY-User-Key-File"}},
	{"*.p12 *.pfx *.jks *.keystore *.kdbx .vault-token master.key", nil},
	{".npmrc", []string{"_authToken", "_auth=", "_password"}},
	{".yarnrc.yml", []string{"npmAuthToken", "npmAuthIdent"}},
	{".netrc _netrc .pypirc", []string{"password"}},
	{".pgpass .htpasswd", []string{":"}},
	{".git-credentials", []string{"://"}},
	{"credentials credentials.toml", []string{"secret", "token", "password"}},
	{"credentials.json service-account.json service_account.json serviceaccount.json",
		[]string{"private_key", "client_secret", "refresh_token"}},
	{"config.json .dockercfg", []string{`"auth"`, `"identitytoken"`}},
	{"kubeconfig", []string{"client-key-data", "token:", "password:"}},
	{"hosts.yml", []string{"oauth_token"}},
	{".terraformrc terraform.rc", []string{"token"}},
}

// byName has the kinds by whole names, and by endings with a dot.
var byName = func() map[string]*kind {
	m := make(map[string]*kind)
	for _, k := range kinds {
		for name := range strings.FieldsSeq(k.names) {
			m[strings.TrimPrefix(name, "*")] = k
		}
	}
	return m
}()

// samples are endings of files that show which variables an environment has.
var samples = []string{"example", "sample", "template", "tmpl", "dist", "defaults", "schema"}

func kindOf(name string) *kind {
	name = strings.ToLower(name)
	if k := byName[name]; k != nil {
		return k
	}
	dot := strings.LastIndexByte(name, '.')
	switch {
	case strings.HasPrefix(name, ".env."):
		for _, s := range samples {
			if name[dot+1:] == s {
				return nil
			}
		}
		return environment
	case dot > 0:
		return byName[name[dot:]]
	}
	return nil
}

// headSize is how many bytes of a file are looked at.
const headSize = 8 << 10

// Holds reports whether a file of this name, the last of its path, seems to hold secrets.
// content is what the file begins with; nil: that is not known, and its name decides.
func Holds(name string, content []byte) bool {
	k := kindOf(name)
	if k == nil || content == nil || k.signs == nil {
		return k != nil
	}
	head := content[:min(len(content), headSize)]
	for _, sign := range k.signs {
		if bytes.Contains(head, []byte(sign)) {
			return true
		}
	}
	return false
}
