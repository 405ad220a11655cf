package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

// TestSign signs the example of AWS's documentation ("Authenticating Requests: Using the
// Authorization Header", GET Object).
func TestSign(t *testing.T) {
	req := httptest.NewRequest("GET", "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	req.Header.Set("Range", "bytes=0-9")
	sign(req, nil, Keys{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, "us-east-1",
		time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, " +
		"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, " +
		"Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
	if got := req.Header.Get("Authorization"); got != want {
		t.Errorf("signed\n%s, want\n%s", got, want)
	}
}

// TestVersity holds a bucket of a server that is not ours against the contract.
func TestVersity(t *testing.T) {
	server := remotetest.Versity(t)
	n := 0
	remotetest.Test(t, func(t *testing.T) remote.Backend {
		n++
		b, err := New(Config{Endpoint: server.URL, Bucket: server.Bucket, Prefix: fmt.Sprintf("test/%d", n),
			Credentials: Static(Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	t.Run("bucket", func(t *testing.T) {
		b, err := New(Config{Endpoint: server.URL, Bucket: "none",
			Credentials: Static(Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range b.List(t.Context(), "", "") {
			if !errors.Is(err, remote.ErrRefused) {
				t.Errorf("a list of a bucket that is not there: %v", err)
			}
		}
		if err := b.Create(t.Context(), "a", nil); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("Create in a bucket that is not there: %v", err)
		}
	})
	t.Run("secret", func(t *testing.T) {
		b, err := New(Config{Endpoint: server.URL, Bucket: server.Bucket,
			Credentials: Static(Keys{ID: remotetest.AccessKey, Secret: "wrong"})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(t.Context(), "a", 0, -1); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("Get with a wrong secret: %v", err)
		}
	})
	t.Run("pages", func(t *testing.T) { testPages(t, server) })
}

// testPages lists more than a server gives at once.
func testPages(t *testing.T, server *remotetest.Server) {
	b, err := New(Config{Endpoint: server.URL, Bucket: server.Bucket, Prefix: "pages",
		Credentials: Static(Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
	if err != nil {
		t.Fatal(err)
	}
	const objects = 1100
	for i := range objects {
		if err := b.Create(t.Context(), fmt.Sprintf("a/%05d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for item, err := range b.List(t.Context(), "a/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("a/%05d", n); item.Key != want {
			t.Fatalf("object %d is %s, want %s", n, item.Key, want)
		}
		n++
	}
	if n != objects {
		t.Errorf("%d objects in the list, want %d", n, objects)
	}
}

// TestAnswers holds what answers mean against what servers say.
func TestAnswers(t *testing.T) {
	var status int
	var body string
	header := http.Header{}
	h := func(w http.ResponseWriter, r *http.Request) {
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
	server := httptest.NewServer(http.HandlerFunc(h))
	defer server.Close()
	b, err := New(Config{Endpoint: server.URL, Bucket: "b", Credentials: Static(Keys{ID: "a", Secret: "b"})})
	if err != nil {
		t.Fatal(err)
	}
	code := func(s string) string { return "<Error><Code>" + s + "</Code><Message>It is so.</Message></Error>" }
	for _, c := range []struct {
		status int
		body   string
		want   error // nil: nobody knows
	}{
		{404, code("NoSuchKey"), remote.ErrNoKey},
		{404, code("NoSuchBucket"), remote.ErrRefused},
		{412, code("PreconditionFailed"), remote.ErrExists},
		{403, code("AccessDenied"), remote.ErrRefused},
		{301, code("PermanentRedirect"), remote.ErrRefused},
		{400, code("InvalidArgument"), remote.ErrRefused},
		{400, code("RequestTimeout"), nil},
		{409, code("ConditionalRequestConflict"), nil},
		{429, "", nil},
		{500, code("InternalError"), nil},
		{503, code("SlowDown"), nil},
		{501, code("NotImplemented"), remote.ErrRefused},
		{507, "", remote.ErrRefused},
	} {
		status, body = c.status, c.body
		err := b.Create(t.Context(), "k", []byte("x"))
		if c.want == nil && !remote.IsUnsure(err) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%d %s is %v, want %v", c.status, c.body, err, c.want)
		}
	}
	status, body = 301, code("PermanentRedirect")
	header.Set("X-Amz-Bucket-Region", "eu-west-1")
	if _, err := b.Get(t.Context(), "k", 0, -1); err == nil || !strings.Contains(err.Error(), "AWS_REGION=eu-west-1") {
		t.Errorf("a bucket of another region: %v", err)
	}
	server.Close()
	if err := b.Create(t.Context(), "k", nil); !remote.IsUnsure(err) || strings.Contains(err.Error(), server.URL) {
		t.Errorf("no server: %v", err)
	}
}

// TestClock shows that a clock that is wrong by years is no reason to be refused.
func TestClock(t *testing.T) {
	t.Run("ahead", func(t *testing.T) { clock(t, 10) })
	t.Run("behind", func(t *testing.T) { clock(t, -10) })
}

func clock(t *testing.T, years int) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		there := time.Now().AddDate(years, 0, 0)
		w.Header().Set("Date", there.UTC().Format(http.TimeFormat))
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || there.Sub(at).Abs() > 15*time.Minute {
			w.WriteHeader(403)
			w.Write([]byte("<Error><Code>RequestTimeTooSkewed</Code></Error>"))
		}
	}))
	defer server.Close()
	b, err := New(Config{Endpoint: server.URL, Bucket: "b", Credentials: Static(Keys{ID: "a", Secret: "b"})})
	if err != nil {
		t.Fatal(err)
	}
	sure := remote.NewSure(b, time.Second)
	if _, err := sure.Get(t.Context(), "k", 0, -1); err != nil || asked != 2 {
		t.Errorf("asked %d times of a server in %d years: %v", asked, years, err)
	}
}

// TestCut shows that half an object is no object.
func TestCut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.Write([]byte("half"))
	}))
	defer server.Close()
	b, err := New(Config{Endpoint: server.URL, Bucket: "b", Credentials: Static(Keys{})})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), "k", 0, -1); !remote.IsUnsure(err) {
		t.Errorf("Get = %q, %v", got, err)
	}
}

// TestTooLarge shows that of an object above the limit no part passes for all of it, whether the server says how long
// it is or not.
func TestTooLarge(t *testing.T) {
	const limit = 1 << 20
	for _, length := range []int64{-1, limit + 1, 1 << 50} {
		body := &zeros{left: limit + 1}
		resp := &http.Response{ContentLength: length, Body: io.NopCloser(body)}
		if b, err := read(resp, -1, limit); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("length %d: %d bytes, %v", length, len(b), err)
		}
		if read := limit + 1 - body.left; length > 0 && read > 0 {
			t.Errorf("length %d: %d bytes were read", length, read)
		}
	}
	for _, c := range []struct{ n, length, got int64 }{
		{10, -1, 10}, {10, 20, 10}, {10, 5, 5}, {-1, 5, 5}, {-1, -1, 20},
	} {
		left := int64(20)
		if c.length > 0 {
			left = c.length
		}
		resp := &http.Response{ContentLength: c.length, Body: io.NopCloser(&zeros{left: left})}
		if b, err := read(resp, c.n, limit); err != nil || int64(len(b)) != c.got {
			t.Errorf("%+v: %d bytes, %v", c, len(b), err)
		}
	}
}

// zeros is so many of them.
type zeros struct{ left int64 }

func (z *zeros) Read(b []byte) (int, error) {
	n := min(int64(len(b)), z.left)
	if z.left -= n; n == 0 {
		return 0, io.EOF
	}
	clear(b[:n])
	return int(n), nil
}

// TestEndlessList shows that a list without end is not read for ever.
func TestEndlessList(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<ListBucketResult>")
		for range 2 * maxAnswer / (64 << 10) {
			io.WriteString(w, strings.Repeat(" ", 64<<10))
		}
		io.WriteString(w, "</ListBucketResult>")
	}))
	defer server.Close()
	b, err := New(Config{Endpoint: server.URL, Bucket: "b", Credentials: Static(Keys{})})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range b.List(t.Context(), "log/", "") {
		if !errors.Is(err, remote.ErrRefused) {
			t.Errorf("List: %v", err)
		}
		return
	}
	t.Error("all of it was read")
}

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(home, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	write(".aws/config", "[default]\nregion = eu-north-1\n# no\n[profile  r2]\nendpoint_url=https://r2\nregion=auto\n"+
		"[profile vault]\ncredential_process = vault get s3\n")
	write(".aws/credentials", "[default]\naws_access_key_id = A\naws_secret_access_key=S=\n[r2]\naws_access_key_id=R\n"+
		"aws_secret_access_key=T\naws_session_token=U\n")
	run := func(_ context.Context, command string) ([]byte, error) {
		return fmt.Appendf(nil, `{"Version":1,"AccessKeyId":%q,"SecretAccessKey":"P","SessionToken":"Q"}`, command), nil
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"files", nil, " eu-north-1 A S= "},
		{"profile", map[string]string{"AWS_PROFILE": "r2"}, "https://r2 auto R T U"},
		{"command", map[string]string{"AWS_PROFILE": "vault"}, "  vault get s3 P Q"},
		{"variables", map[string]string{"AWS_ENDPOINT_URL": "http://e", "AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "k",
			"AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "r2"}, "http://e r k s t"},
	} {
		config, err := FromEnv(Env{Getenv: func(k string) string { return c.env[k] }, Home: home, Run: run})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		keys, err := config.Credentials(t.Context())
		got := strings.Join([]string{config.Endpoint, config.Region, keys.ID, keys.Secret, keys.Token}, " ")
		if got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
	none := func(k string) string {
		return map[string]string{"AWS_PROFILE": "none", "AWS_EC2_METADATA_DISABLED": "true"}[k]
	}
	_, err := FromEnv(Env{Getenv: none, Home: home})
	if err == nil || !strings.Contains(err.Error(), "no such profile") {
		t.Errorf("a profile that is not there: %v", err)
	}
	off := func(k string) string { return map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}[k] }
	config, err := FromEnv(Env{Getenv: off, Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Credentials(t.Context()); !errors.Is(err, remote.ErrRefused) {
		t.Errorf("no credentials: %v", err)
	}
}

// TestMachine asks for the credentials that a virtual machine has, once.
func TestMachine(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch {
		case r.Method == "PUT" && r.URL.Path == "/latest/api/token":
			w.Write([]byte("tok"))
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "tok":
			w.WriteHeader(401)
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			w.Write([]byte("role\n"))
		case strings.HasSuffix(r.URL.Path, "/role"):
			fmt.Fprintf(w, `{"AccessKeyId":"A","SecretAccessKey":"B","Token":"C","Expiration":%q}`,
				time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		}
	}))
	defer server.Close()
	env := func(k string) string {
		return map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.URL}[k]
	}
	config, err := FromEnv(Env{Getenv: env, Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		keys, err := config.Credentials(t.Context())
		if want := (Keys{"A", "B", "C"}); keys != want || err != nil {
			t.Errorf("credentials %v, %v", keys, err)
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

// TestKilled shows that what was told to be there is there when the server was killed.
func TestKilled(t *testing.T) {
	server := remotetest.Versity(t)
	b, err := New(Config{Endpoint: server.URL, Bucket: server.Bucket,
		Credentials: Static(Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
	if err != nil {
		t.Fatal(err)
	}
	sure := remote.NewSure(b, time.Minute)
	data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	go func() {
		for range 3 {
			time.Sleep(150 * time.Millisecond)
			server.Kill()
			time.Sleep(50 * time.Millisecond)
			server.Start(t)
		}
	}()
	for i := range 60 {
		if err := sure.Create(t.Context(), fmt.Sprintf("a/%d", i), data); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := range 60 {
		if got, err := sure.Get(t.Context(), fmt.Sprintf("a/%d", i), 0, -1); !bytes.Equal(got, data) || err != nil {
			t.Errorf("object %d has %d bytes, %v", i, len(got), err)
		}
	}
}
