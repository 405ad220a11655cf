package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// describe names the version of the working tree: that of a tag, or of what comes after it.
func describe() (string, error) {
	commit, err := output("git", "rev-parse", "--short=10", "HEAD")
	if err != nil {
		return "", err
	}
	said, err := output("git", "describe", "--tags", "--long", "--abbrev=10", "--match", "v[0-9]*", "HEAD")
	if err != nil { // there is no tag
		count, err := output("git", "rev-list", "--count", "HEAD")
		if err != nil {
			return "", err
		}
		said = "v0.0.0-" + strings.TrimSpace(count) + "-g" + commit
	}
	changed, err := output("git", "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return "", err
	}
	return versionOf(strings.TrimSpace(said), strings.TrimSpace(changed) != "")
}

var described = regexp.MustCompile(`^v(\d+\.\d+\.)(\d+)(-[0-9A-Za-z.-]+)?-(\d+)-g([0-9a-f]+)$`)

// versionOf makes a version by the rules of semver.org, which npm and packages sort by, of
// what git describe --long says: after v1.2.3 comes 1.2.4-dev.5.gHASH, which is before 1.2.4.
func versionOf(said string, changed bool) (string, error) {
	m := described.FindStringSubmatch(said)
	if m == nil {
		return "", fmt.Errorf("git describe says %q, want vN.N.N-N-gHASH", said)
	}
	minor, patch, pre, after, hash := m[1], m[2], m[3], m[4], m[5]
	if after == "0" && !changed {
		return minor + patch + pre, nil
	}
	dev := "dev." + after + ".g" + hash
	if changed {
		dev += ".changed"
	}
	switch {
	case pre != "":
		return minor + patch + pre + "." + dev, nil
	case minor+patch == "0.0.0":
		return minor + patch + "-" + dev, nil
	}
	n, err := strconv.Atoi(patch)
	return fmt.Sprintf("%s%d-%s", minor, n+1, dev), err
}
