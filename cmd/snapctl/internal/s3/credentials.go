package s3

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/remote"
)

// Credentials returns who asks, as of now. It may be called from several goroutines.
type Credentials func(context.Context) (Keys, error)

// Static returns Credentials that are always the same.
func Static(keys Keys) Credentials {
	return func(context.Context) (Keys, error) { return keys, nil }
}

// Env is where [FromEnv] looks.
type Env struct {
	Getenv func(string) string
	Home   string
	// Run runs a command that prints credentials, as profiles may name one; nil: none is run.
	Run func(ctx context.Context, command string) ([]byte, error)
}

// FromEnv returns a Config without a bucket: endpoint, region and credentials from AWS's
// environment variables, from the profile that AWS_PROFILE names in ~/.aws/config and
// ~/.aws/credentials, or from what the machine or container gives to programs that run there.
func FromEnv(env Env) (Config, error) {
	get := env.Getenv
	profile := cmp.Or(get("AWS_PROFILE"), get("AWS_DEFAULT_PROFILE"), "default")
	values, err := readProfile(env, profile)
	if err != nil {
		return Config{}, err
	}
	if profile != "default" && len(values) == 0 {
		return Config{}, fmt.Errorf("AWS_PROFILE %q: there is no such profile in %s or %s", profile, env.configFile(),
			env.credentialsFile())
	}
	c := Config{
		Region:   cmp.Or(get("AWS_REGION"), get("AWS_DEFAULT_REGION"), values["region"]),
		Endpoint: cmp.Or(get("AWS_ENDPOINT_URL_S3"), get("AWS_ENDPOINT_URL"), values["endpoint_url"]),
	}
	switch {
	case get("AWS_ACCESS_KEY_ID") != "":
		c.Credentials = Static(Keys{get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY"), get("AWS_SESSION_TOKEN")})
	case values["aws_access_key_id"] != "":
		c.Credentials = Static(Keys{values["aws_access_key_id"], values["aws_secret_access_key"],
			values["aws_session_token"]})
	case values["credential_process"] != "" && env.Run != nil:
		c.Credentials = kept(func(ctx context.Context) ([]byte, error) {
			return env.Run(ctx, values["credential_process"])
		})
	case get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "":
		c.Credentials = kept(container("http://169.254.170.2"+get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), env))
	case get("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		c.Credentials = kept(container(get("AWS_CONTAINER_CREDENTIALS_FULL_URI"), env))
	case get("AWS_EC2_METADATA_DISABLED") != "true":
		c.Credentials = kept(machine(cmp.Or(get("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254")))
	default:
		c.Credentials = nobody(nil)
	}
	return c, nil
}

// nobody returns Credentials that say what to do to have some.
func nobody(why error) Credentials {
	err := fmt.Errorf("%w: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
		remote.ErrRefused)
	if why != nil {
		err = fmt.Errorf("%w (%w)", err, why)
	}
	return func(context.Context) (Keys, error) { return Keys{}, err }
}

func (e Env) configFile() string {
	return cmp.Or(e.Getenv("AWS_CONFIG_FILE"), filepath.Join(e.Home, ".aws", "config"))
}

func (e Env) credentialsFile() string {
	return cmp.Or(e.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(e.Home, ".aws", "credentials"))
}

// readProfile returns what the two files of AWS's programs say of a profile.
func readProfile(env Env, profile string) (map[string]string, error) {
	values := make(map[string]string)
	section := "profile " + profile
	if profile == "default" {
		section = profile
	}
	for _, f := range [][2]string{{env.configFile(), section}, {env.credentialsFile(), profile}} {
		b, err := os.ReadFile(f[0])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in := false
		for scan := bufio.NewScanner(bytes.NewReader(b)); scan.Scan(); {
			line := strings.TrimSpace(scan.Text())
			if name, ok := strings.CutPrefix(line, "["); ok {
				in = strings.Join(strings.Fields(strings.TrimSuffix(name, "]")), " ") == f[1]
				continue
			}
			key, value, ok := strings.Cut(line, "=")
			if in && ok && line[0] != '#' && line[0] != ';' {
				values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
			}
		}
	}
	return values, nil
}

// kept returns Credentials that ask again five minutes before what they were told ends.
func kept(ask func(context.Context) ([]byte, error)) Credentials {
	var mu sync.Mutex
	var keys Keys
	var until time.Time
	return func(ctx context.Context) (Keys, error) {
		mu.Lock()
		defer mu.Unlock()
		if keys != (Keys{}) && (until.IsZero() || time.Until(until) > 5*time.Minute) {
			return keys, nil
		}
		b, err := ask(ctx)
		if err != nil {
			return nobody(err)(ctx)
		}
		var said struct {
			AccessKeyId, SecretAccessKey string // as the JSON has it
			Token, SessionToken          string
			Expiration                   time.Time
		}
		if err := json.Unmarshal(b, &said); err != nil || said.AccessKeyId == "" {
			return nobody(errors.New("what gives some says no key"))(ctx)
		}
		keys = Keys{said.AccessKeyId, said.SecretAccessKey, cmp.Or(said.Token, said.SessionToken)}
		until = said.Expiration
		return keys, nil
	}
}

// container asks what runs the container.
func container(address string, env Env) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		token := env.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
		if name := env.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); name != "" {
			b, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			token = strings.TrimSpace(string(b))
		}
		return ask(ctx, "GET", address, map[string]string{"Authorization": token})
	}
}

// machine asks the service of a virtual machine, in its second version.
func machine(address string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		token, err := ask(ctx, "PUT", address+"/latest/api/token",
			map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "21600"})
		if err != nil {
			return nil, err
		}
		header := map[string]string{"X-Aws-Ec2-Metadata-Token": string(token)}
		at := address + "/latest/meta-data/iam/security-credentials/"
		role, err := ask(ctx, "GET", at, header)
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(string(role), "\n")
		return ask(ctx, "GET", at+name, header)
	}
}

// ask asks a service that is near: what does not answer in two seconds is not there.
func ask(ctx context.Context, method, address string, header map[string]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, resp.Status)
	}
	return b, err
}
