package remotetest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// minioModule is the last version of MinIO that was published.
const minioModule = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"

// MinioHost is the address that a [Cluster] wants to be one of this machine's: it takes none of 127/8, nor several.
const MinioHost = "10.99.0.1"

// MinioProgram builds MinIO, which takes a quarter of an hour, and once, and returns its file.
func MinioProgram(t testing.TB) string {
	t.Helper()
	binary, err := program(t, "minio-20260212201848", t.TempDir(), minioModule, "GOFLAGS=")
	if err != nil {
		t.Fatalf("MinIO cannot be built here: %v", err)
	}
	return binary
}

// A Cluster is MinIO as four processes, each with a directory, of which each object has two parts of data and two
// more. With three of them it writes, with two it reads.
type Cluster struct {
	Bucket string // that is there
	Dir    string // where files of the nodes are

	t      testing.TB
	binary string
	nodes  [4]*exec.Cmd // nil: it does not run
	said   [4]bytes.Buffer
}

// Minio starts a Cluster.
func Minio(t testing.TB, binary string) *Cluster {
	t.Helper()
	c := &Cluster{Bucket: "bucket", Dir: t.TempDir(), t: t, binary: binary}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.Kill(i)
			if t.Failed() {
				t.Logf("node %d: %.500s", i, c.said[i].String())
			}
		}
	})
	for i := range c.nodes {
		c.Start(i)
	}
	c.await()
	for i := range c.nodes { // MinIO takes a directory for a bucket
		if err := os.Mkdir(filepath.Join(c.drive(i), c.Bucket), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *Cluster) drive(node int) string { return filepath.Join(c.Dir, fmt.Sprint("d", node)) }

func (c *Cluster) addr(node int) string { return net.JoinHostPort(MinioHost, fmt.Sprint(9001+node)) }

// URL is that of a node, for AWS_ENDPOINT_URL.
func (c *Cluster) URL(node int) string { return "http://" + c.addr(node) }

// Env are the environment variables by which a program finds a node.
func (c *Cluster) Env(node int) []string { return env(c.URL(node)) }

// Start starts a node, again if it was killed. It may take a while until that can write.
func (c *Cluster) Start(node int) {
	c.t.Helper()
	args := []string{"server", "--quiet", "--address", c.addr(node)}
	for i := range c.nodes {
		args = append(args, c.URL(i)+c.drive(i))
	}
	cmd := exec.CommandContext(context.Background(), c.binary, args...)
	cmd.Env = append(os.Environ(), "MINIO_CI_CD=1", "MINIO_BROWSER=off", "MINIO_UPDATE=off", "HOME="+c.Dir,
		"MINIO_ROOT_USER="+AccessKey, "MINIO_ROOT_PASSWORD="+SecretKey)
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = &c.said[node], &c.said[node]
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.nodes[node] = cmd
}

// await waits until each node says that it can write.
func (c *Cluster) await() {
	c.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for node := range c.nodes {
		for {
			said, err := c.health(node)
			if err == nil && strings.Contains(said, " 200 ") {
				break
			}
			if time.Now().After(deadline) {
				c.t.Fatalf("MinIO's node %d cannot write: %q, %v\n%s", node, said, err, c.said[node].String())
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// health returns the first line of what a node answers that is asked whether it can write.
func (c *Cluster) health(node int) (string, error) {
	conn, err := net.DialTimeout("tcp", c.addr(node), time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /minio/health/cluster HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// Kill kills a node.
func (c *Cluster) Kill(node int) {
	if cmd := c.nodes[node]; cmd != nil {
		cmd.Process.Kill()
		cmd.Wait()
		c.nodes[node] = nil
	}
}
