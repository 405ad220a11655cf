package ignore

import (
	"fmt"
	"strings"
	"testing"
)

// kernelLike has the size and the kinds of the Linux kernel's own .gitignore:
// names, endings, a few bracket expressions, anchored paths, re-inclusions.
func kernelLike() []byte {
	var b strings.Builder
	b.WriteString(".*\n")
	for _, ext := range strings.Fields(`a bin bz2 dt.yaml dtb dtbo dtb.S dtbo.S dwo elf gcno gcda gz i ko ll lex.c lst lz4 lzma lzo mod mod.c o order patch
		rmeta rpm rsi s so so.dbg su symtypes symversions tab.c tab.h xz zst so.raw orig kdev4 o.d cmd tmp pyc mo gmo`) {
		fmt.Fprintf(&b, "*.%s\n", ext)
	}
	b.WriteString("*.asn1.[ch]\n*.c.[012]*.*\n*.tab.[ch]\n*_MODULES\n*~\n\\#*#\n*.o.*\n")
	for _, name := range strings.Fields(`linux modules-only.symvers vmlinux vmlinux.32 vmlinux.map vmlinux.symvers vmlinux-gdb.py vmlinuz System.map
		Module.markers modules.builtin modules.builtin.modinfo modules.nsdeps modules.order dist sources.list.d debian/ snap/ tar-install/ *.spec`) {
		fmt.Fprintf(&b, "/%s\n", name)
	}
	for _, name := range strings.Fields(`clang-format cocciconfig editorconfig get_maintainer.ignore gitattributes gitignore kunitconfig mailmap rustfmt.toml yamllint`) {
		fmt.Fprintf(&b, "!.%s\n", name)
	}
	b.WriteString("/include/config/\n/include/generated/\n/include/ksym/\n/arch/*/include/generated/\n")
	b.WriteString("patches-*\npatches\nseries\ntags\nTAGS\n!tags/\ncscope.*\nncscope.*\nGPATH\nGRTAGS\nGSYMS\nGTAGS\n" +
		"*.sw[a-p]\n")
	b.WriteString("x509.genkey\nsigning_key.pem\nextra_certificates\nallrandom.config\nallyes.config\nCLAUDE*\n" +
		"Kconfig.gen\nnconf-cfg\n")
	return []byte(b.String())
}

// fileNames are 80 names of which a few are ignored.
func fileNames() []string {
	var names []string
	for i, stem := range strings.Fields("Makefile core main ethernet-driver " +
		"ioctl i2c-designware-platdrv super inode tls_device README") {
		for j, ext := range strings.Fields(".c .h .rst .S .yaml .dts .o _defs.h") {
			names = append(names, fmt.Sprintf("%s%d%s", stem, i*j, ext))
		}
	}
	return names
}

func BenchmarkMatch(b *testing.B) {
	names := fileNames()
	for _, fold := range []bool{false, true} {
		root := Root(Options{IgnoreCase: fold,
			Info: []byte("# git ls-files --others --exclude-from=.git/info/exclude\n")}).WithFiles(kernelLike(), nil)
		for _, bb := range []struct {
			name  string
			rules *Rules
		}{
			{"root", root},
			{"drivers_net_ethernet_intel", root.Sub("drivers").Sub("net").Sub("ethernet").Sub("intel")},
			{"tools_perf_with_files", root.Sub("tools").WithFiles([]byte("/x\n*.y\n"),
				nil).Sub("perf").WithFiles([]byte("PERF-*\nperf\n!*.data/x\n"), nil)},
		} {
			b.Run(fmt.Sprintf("fold=%v/%s", fold, bb.name), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					bb.rules.Match(names[i%len(names)], false)
					i++
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text := kernelLike()
	b.ReportAllocs()
	for b.Loop() {
		Root(Options{}).WithFiles(text, nil).Match("Makefile", false)
	}
}

var sub *Rules // keeps the compiler from dropping the work

func BenchmarkSub(b *testing.B) {
	r := Root(Options{}).WithFiles(kernelLike(), nil)
	b.ReportAllocs()
	for b.Loop() {
		sub = r.Sub("drivers").WithFiles(nil, nil)
	}
}

func BenchmarkWithFiles(b *testing.B) {
	r, text := Root(Options{}), kernelLike()
	b.ReportAllocs()
	for b.Loop() {
		_ = r.WithFiles(text, nil).ID()
	}
}
