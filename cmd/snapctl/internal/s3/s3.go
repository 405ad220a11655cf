// Package s3 is a bucket on S3 as a [remote.Backend]: the six requests that a remote needs,
// signed as AWS Signature Version 4 has it. It does not try again: [remote.Sure] does.
//
// [FromEnv] finds out who asks, and where, as AWS's own programs do.
package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/internal/remote"
)

// A Config says where a bucket is, and who asks.
type Config struct {
	Endpoint    string      // URL of the server; "": AWS's of the region
	Region      string      // "": us-east-1
	Bucket      string      // must be given
	Prefix      string      // of all keys, without a slash at its end; "": none
	Credentials Credentials // who asks
	Transport   http.RoundTripper
}

// A Bucket is a [remote.Backend].
type Bucket struct {
	config Config
	base   *url.URL // of the bucket
	client *http.Client
	ahead  atomic.Int64 // by how much the server's clock is, as far as is known
}

// New returns the Backend of a bucket. It asks nothing.
func New(config Config) (*Bucket, error) {
	if config.Region == "" {
		config.Region = "us-east-1"
	}
	if config.Bucket == "" || strings.ContainsAny(config.Bucket, "/?#%@: ") {
		return nil, fmt.Errorf("bucket %q: want its name, as in s3://BUCKET/PREFIX", config.Bucket)
	}
	if config.Prefix != "" {
		if err := remote.CheckKey(config.Prefix); err != nil {
			return nil, fmt.Errorf("prefix %q: want letters, digits and ._- between slashes", config.Prefix)
		}
	}
	host := config.Endpoint
	if host == "" {
		// A dot in a bucket's name is in no certificate of a host.
		host = "https://s3." + config.Region + ".amazonaws.com/" + config.Bucket
		if !strings.Contains(config.Bucket, ".") {
			host = "https://" + config.Bucket + ".s3." + config.Region + ".amazonaws.com"
		}
	} else {
		host = strings.TrimSuffix(host, "/") + "/" + config.Bucket
	}
	base, err := url.Parse(host)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("endpoint %q: want a URL, as in http://localhost:9000", config.Endpoint)
	}
	transport := config.Transport
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		// As many as are asked at once: 16. Headers that never come are an answer that is lost.
		t.MaxIdleConnsPerHost, t.ResponseHeaderTimeout = 32, time.Minute
		t.DisableCompression = true
		transport = t
	}
	// A redirect is of another region, which a signature is not for.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Bucket{config: config, base: base, client: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// String returns the bucket's name and prefix, as a user says them.
func (b *Bucket) String() string {
	return strings.TrimSuffix("s3://"+b.config.Bucket+"/"+b.config.Prefix, "/")
}

func (b *Bucket) name(key string) string {
	if b.config.Prefix == "" {
		return key
	}
	return b.config.Prefix + "/" + key
}

// A request is one to the bucket.
type request struct {
	method, key string
	list        bool // it is not about one object
	query       url.Values
	header      map[string]string
	part        string // of the object, as Range has it; "": all
	body        []byte
}

// do asks, and returns an answer that says yes, whose body is the caller's to close.
func (b *Bucket) do(ctx context.Context, r *request) (*http.Response, error) {
	u := *b.base
	if !r.list {
		if err := remote.CheckKey(r.key); err != nil {
			return nil, err
		}
		u.Path = strings.TrimSuffix(u.Path, "/") + "/" + b.name(r.key)
	} else if u.Path == "" {
		u.Path = "/"
	}
	u.RawQuery = canonicalQuery(r.query)
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", remote.ErrRefused, err)
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	keys, err := b.config.Credentials(ctx)
	if err != nil {
		return nil, err
	}
	sign(req, r.body, keys, b.config.Region, time.Now().Add(time.Duration(b.ahead.Load())))
	if r.part != "" { // it is not signed: caches on the way ask for the whole object
		req.Header.Set("Range", r.part)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, b.failure(r, resp)
}

// withoutURL takes the method and the address from an error: what it was about is said above.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// A ServerError is an answer that says no.
type ServerError struct {
	Status  int    // of HTTP
	Code    string // of S3, e.g. NoSuchBucket; "": none was given
	Message string
	kind    error // of package remote; nil: it is not known whether it was done
}

func (e *ServerError) Error() string {
	s := strconv.Itoa(e.Status) + " " + e.Code
	if e.Code == "" {
		s = strconv.Itoa(e.Status) + " " + http.StatusText(e.Status)
	}
	if e.Message != "" {
		s += ": " + strings.TrimSuffix(e.Message, ".")
	}
	return s
}

// Unwrap returns which of package remote's errors it is.
func (e *ServerError) Unwrap() error { return e.kind }

// failure returns what an answer that says no means.
func (b *Bucket) failure(r *request, resp *http.Response) error {
	e := &ServerError{Status: resp.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var said struct{ Code, Message string }
	if xml.Unmarshal(body, &said) == nil {
		e.Code, e.Message = said.Code, said.Message
	}
	switch code := resp.StatusCode; {
	case e.Code == "NoSuchBucket":
		e.kind = remote.ErrRefused
	case code == http.StatusNotFound && !r.list:
		e.kind = remote.ErrNoKey
	case code == http.StatusPreconditionFailed:
		e.kind = remote.ErrExists
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooManyRequests,
		code == 499, e.Code == "RequestTimeout", e.Code == "RequestTimeTooSkewed" && b.learnTime(resp),
		code == http.StatusForbidden && b.isSkewed(resp) && b.learnTime(resp):
		// it may have been done
	case code >= 500 && code != http.StatusNotImplemented && code != http.StatusInsufficientStorage:
	default:
		e.kind = remote.ErrRefused
		if region := resp.Header.Get("X-Amz-Bucket-Region"); region != "" && region != b.config.Region {
			e.Message = fmt.Sprintf("the bucket is in region %s: set AWS_REGION=%s", region, region)
		}
	}
	if r.list {
		return fmt.Errorf("list: %w", e)
	}
	return fmt.Errorf("%s %s: %w", strings.ToLower(r.method), r.key, e)
}

// isSkewed reports whether an answer is of another time than the one that a request was signed
// for, by so much that servers refuse that. A HEAD has no other way to say it.
func (b *Bucket) isSkewed(resp *http.Response) bool {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	off := time.Until(at) - time.Duration(b.ahead.Load())
	return err == nil && off.Abs() > 10*time.Minute
}

// learnTime takes the time from an answer: a clock that goes wrong is no reason to be refused.
func (b *Bucket) learnTime(resp *http.Response) bool {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return false
	}
	b.ahead.Store(int64(time.Until(at)))
	return true
}

// Create implements [remote.Backend].
func (b *Bucket) Create(ctx context.Context, key string, data []byte) error {
	return b.put(ctx, &request{method: "PUT", key: key, body: data, header: map[string]string{"If-None-Match": "*"}})
}

// Overwrite implements [remote.Backend].
func (b *Bucket) Overwrite(ctx context.Context, key string, data []byte) error {
	return b.put(ctx, &request{method: "PUT", key: key, body: data})
}

func (b *Bucket) put(ctx context.Context, r *request) error {
	resp, err := b.do(ctx, r)
	if err != nil {
		return err
	}
	return drain(resp)
}

// drain ends an answer, so that its connection can be used again.
func drain(resp *http.Response) error {
	_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return errors.Join(err, resp.Body.Close())
}

// Get implements [remote.Backend].
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	r := &request{method: "GET", key: key}
	if n == 0 {
		_, err := b.Stat(ctx, key)
		return nil, err
	}
	switch {
	case n > 0:
		r.part = fmt.Sprintf("bytes=%d-%d", off, off+n-1)
	case off > 0:
		r.part = fmt.Sprintf("bytes=%d-", off)
	}
	resp, err := b.do(ctx, r)
	if e, ok := errors.AsType[*ServerError](err); ok && e.Status == http.StatusRequestedRangeNotSatisfiable {
		return nil, nil // it ends before
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if n > 0 && resp.StatusCode != http.StatusPartialContent && off > 0 {
		return nil, fmt.Errorf("%w: get %s: the server sends no part of an object", remote.ErrRefused, key)
	}
	body, err := read(resp, n, remote.MaxObject)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return body, nil
}

// read returns n bytes of what a server sends, fewer at its end; all if n is negative. It refuses more than limit.
func read(resp *http.Response, n, limit int64) ([]byte, error) {
	if n < 0 || n > limit {
		n = limit + 1 // of which the last is too much
	}
	want := min(resp.ContentLength, n) // negative: the server does not say
	var buf bytes.Buffer
	if want <= limit {
		buf.Grow(int(max(want, 0)) + bytes.MinRead)
		if _, err := io.Copy(&buf, io.LimitReader(resp.Body, n)); err != nil {
			return nil, err
		}
	}
	switch got := int64(buf.Len()); {
	case max(want, got) > limit:
		return nil, fmt.Errorf("%w: it has more than %d bytes, the limit", remote.ErrRefused, limit)
	case want >= 0 && got != want:
		return nil, io.ErrUnexpectedEOF
	}
	return buf.Bytes(), nil
}

// Stat implements [remote.Backend].
func (b *Bucket) Stat(ctx context.Context, key string) (int64, error) {
	resp, err := b.do(ctx, &request{method: "HEAD", key: key})
	if err != nil {
		return 0, err
	}
	if resp.ContentLength < 0 {
		return 0, errors.Join(drain(resp), fmt.Errorf("stat %s: no length was given", key))
	}
	return resp.ContentLength, resp.Body.Close()
}

// Delete implements [remote.Backend].
func (b *Bucket) Delete(ctx context.Context, key string) error {
	resp, err := b.do(ctx, &request{method: "DELETE", key: key})
	if errors.Is(err, remote.ErrNoKey) {
		return nil
	}
	if err != nil {
		return err
	}
	return drain(resp)
}

// Keeps says why what is removed from the bucket may still be there; "": nothing of it is known to be.
func (b *Bucket) Keeps(ctx context.Context) (string, error) {
	var versions struct{ Status string }
	err := b.ask(ctx, "versioning", &versions)
	if err == nil && versions.Status != "" { // also suspended: what there was before stays
		return "the bucket keeps old versions of objects", nil
	}
	var lock struct{ ObjectLockEnabled string }
	lerr := b.ask(ctx, "object-lock", &lock)
	if lerr == nil && lock.ObjectLockEnabled == "Enabled" {
		return "the bucket locks objects", nil
	}
	if err != nil {
		return "", fmt.Errorf("whether the bucket keeps old versions: %w", err)
	}
	return "", nil
}

// ask reads how the bucket is set up.
func (b *Bucket) ask(ctx context.Context, what string, v any) error {
	resp, err := b.do(ctx, &request{method: "GET", list: true, query: url.Values{what: {""}}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(resp, v)
}

// maxAnswer bounds the bytes of an answer but for those of an object: a list of a thousand keys of a thousand bytes
// is far below it.
const maxAnswer = 16 << 20

func decode(resp *http.Response, v any) error {
	body := &io.LimitedReader{R: resp.Body, N: maxAnswer}
	err := xml.NewDecoder(body).Decode(v)
	if err != nil && body.N == 0 {
		err = fmt.Errorf("%w: the answer has more than %d bytes", remote.ErrRefused, maxAnswer)
	}
	return err
}

// A listing is what ListObjectsV2 answers.
type listing struct {
	Contents []struct {
		Key  string
		Size int64
	}
	IsTruncated           bool
	NextContinuationToken string
}

// List implements [remote.Backend].
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Item, error] {
	return func(yield func(remote.Item, error) bool) {
		query := url.Values{"list-type": {"2"}}
		if p := b.name(prefix); p != "" {
			query.Set("prefix", p)
		}
		if after != "" {
			query.Set("start-after", b.name(after))
		}
		for {
			page, err := b.page(ctx, query)
			if err != nil {
				yield(remote.Item{}, err)
				return
			}
			for _, c := range page.Contents {
				key := strings.TrimPrefix(c.Key, b.name(""))
				// Some servers count directories as objects, and begin at the key that is named.
				if strings.HasSuffix(key, "/") || key <= after || remote.CheckKey(key) != nil {
					continue
				}
				if !yield(remote.Item{Key: key, Size: c.Size}, nil) {
					return
				}
			}
			if !page.IsTruncated {
				return
			}
			if page.NextContinuationToken == "" {
				yield(remote.Item{}, errors.New("list: it goes on, and the server does not say where"))
				return
			}
			query.Set("continuation-token", page.NextContinuationToken)
		}
	}
}

func (b *Bucket) page(ctx context.Context, query url.Values) (*listing, error) {
	resp, err := b.do(ctx, &request{method: "GET", list: true, query: query})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var page listing
	if err := decode(resp, &page); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return &page, nil
}
