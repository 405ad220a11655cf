package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Keys are who asks. The zero Keys are nobody: requests are not signed.
type Keys struct {
	ID, Secret string
	Token      string // of a session; "": none
}

// sign signs a request as AWS Signature Version 4 has it: over its method, path, query, all its
// headers, and the hash of its body.
func sign(req *http.Request, body []byte, keys Keys, region string, now time.Time) {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Content-Sha256", hash)
	if keys == (Keys{}) {
		return
	}
	at := now.UTC().Format("20060102T150405Z")
	req.Header.Set("X-Amz-Date", at)
	if keys.Token != "" {
		req.Header.Set("X-Amz-Security-Token", keys.Token)
	}
	headers := map[string]string{"host": req.URL.Host}
	for k, v := range req.Header {
		headers[strings.ToLower(k)] = strings.Join(v, ",")
	}
	var names []string
	for k := range headers {
		names = append(names, k)
	}
	slices.Sort(names)
	signed := strings.Join(names, ";")
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", req.Method, req.URL.EscapedPath(), req.URL.RawQuery)
	for _, k := range names {
		fmt.Fprintf(&canonical, "%s:%s\n", k, strings.TrimSpace(headers[k]))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", signed, hash)
	scope := strings.Join([]string{at[:8], region, "s3", "aws4_request"}, "/")
	of := sha256.Sum256([]byte(canonical.String()))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, hex.EncodeToString(of[:])}, "\n")
	key := []byte("AWS4" + keys.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x",
		keys.ID, scope, signed, mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonicalQuery writes a query as it is signed: sorted, and a space is %20.
func canonicalQuery(q url.Values) string {
	return strings.ReplaceAll(q.Encode(), "+", "%20")
}
