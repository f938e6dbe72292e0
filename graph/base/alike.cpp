// Decides whether two texts look alike, and describes their first difference:
//   1. characters decodes a text to code points.
//   2. look_of removes invisible characters, decomposes letters with marks (Unicode's form NFD) and replaces letters of
//      other alphabets by the ASCII letters that they look like. Two texts look alike if the results are equal.
//   3. difference_of_alikes compares the code points of both texts, and describes the first letter that differs.
// A letter with its marks is one character in Unicode's form NFC and several in NFD. macOS writes file names in NFD, so
// names in a file and names of files may differ in this way.
#include "graph/base/alike.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "graph/base/utf8.h"

namespace xrun {
namespace {

// For each combining mark, pairs of a letter with the mark and the letter without it (UnicodeData.txt of Unicode 15;
// Latin, Greek, Cyrillic, Arabic, kana).
struct Marked {
  uint32_t mark;
  std::string_view letters;
};
constexpr Marked kMarked[] = {
    {0x0300,
     "ÀAÈEÌIÒOÙUàaèeìiòoùuǛÜǜüǸNǹnЀЕЍИѐеѝиḔĒḕēṐŌṑōẀWẁwẦÂầâẰĂằăỀÊềêỒÔồôỜƠờơỪƯừưỲYỳyἂἀἃἁἊἈἋἉἒἐἓἑἚἘἛἙἢἠἣἡ"
     "ἪἨἫἩἲἰἳἱἺἸἻἹὂὀὃὁὊὈὋὉὒὐὓὑὛὙὢὠὣὡὪὨὫὩὰαὲεὴηὶιὸοὺυὼωᾺΑῈΕῊΗ῍᾿ῒϊῚΙ῝῾ῢϋῪΥ῭¨ῸΟῺΩ"},
    {0x0301,
     "ÁAÉEÍIÓOÚUÝYáaéeíióoúuýyĆCćcĹLĺlŃNńnŔRŕrŚSśsŹZźzǗÜǘüǴGǵgǺÅǻåǼÆǽæǾØǿø̈́̈΅¨ΆΑΈΕΉΗΊΙΌΟΎΥΏΩΐϊάαέεήηίι"
     "ΰϋόούυώωϓϒЃГЌКѓгќкḈÇḉçḖĒḗēḮÏḯïḰKḱkḾMḿmṌÕṍõṒŌṓōṔPṕpṸŨṹũẂWẃwẤÂấâẮĂắăẾÊếêỐÔốôỚƠớơỨƯứưἄἀἅἁἌἈἍἉἔἐἕἑἜἘ"
     "ἝἙἤἠἥἡἬἨἭἩἴἰἵἱἼἸἽἹὄὀὅὁὌὈὍὉὔὐὕὑὝὙὤὠὥὡὬὨὭὩ῎᾿῞῾"},
    {0x0302, "ÂAÊEÎIÔOÛUâaêeîiôoûuĈCĉcĜGĝgĤHĥhĴJĵjŜSŝsŴWŵwŶYŷyẐZẑzẬẠậạỆẸệẹỘỌộọ"},
    {0x0303, "ÃAÑNÕOãañnõoĨIĩiŨUũuṼVṽvẪÂẫâẴĂẵăẼEẽeỄÊễêỖÔỗôỠƠỡơỮƯữưỸYỹy"},
    {0x0304, "ĀAāaĒEēeĪIīiŌOōoŪUūuǕÜǖüǞÄǟäǠȦǡȧǢÆǣæǬǪǭǫȪÖȫöȬÕȭõȰȮȱȯȲYȳyӢИӣиӮУӯуḠGḡgḸḶḹḷṜṚṝṛᾱαᾹΑῑιῙΙῡυῩΥ"},
    {0x0306, "ĂAăaĔEĕeĞGğgĬIĭiŎOŏoŬUŭuЎУЙИйиўуӁЖӂжӐАӑаӖЕӗеḜȨḝȩẶẠặạᾰαᾸΑῐιῘΙῠυῨΥ"},
    {0x0307, "ĊCċcĖEėeĠGġgİIŻZżzȦAȧaȮOȯoḂBḃbḊDḋdḞFḟfḢHḣhṀMṁmṄNṅnṖPṗpṘRṙrṠSṡsṤŚṥśṦŠṧšṨṢṩṣṪTṫtẆWẇwẊXẋxẎYẏyẛſ"},
    {0x0308,
     "ÄAËEÏIÖOÜUäaëeïiöoüuÿyŸYΪΙΫΥϊιϋυϔϒЁЕЇІёеїіӒАӓаӚӘӛәӜЖӝжӞЗӟзӤИӥиӦОӧоӪӨӫөӬЭӭэӰУӱуӴЧӵчӸЫӹыḦHḧhṎÕṏõṺŪ"
     "ṻūẄWẅwẌXẍxẗt"},
    {0x0309, "ẢAảaẨÂẩâẲĂẳăẺEẻeỂÊểêỈIỉiỎOỏoỔÔổôỞƠởơỦUủuỬƯửưỶYỷy"},
    {0x030A, "ÅAåaŮUůuẘwẙy"},
    {0x030B, "ŐOőoŰUűuӲУӳу"},
    {0x030C, "ČCčcĎDďdĚEěeĽLľlŇNňnŘRřrŠSšsŤTťtŽZžzǍAǎaǏIǐiǑOǒoǓUǔuǙÜǚüǦGǧgǨKǩkǮƷǯʒǰjȞHȟh"},
    {0x030F, "ȀAȁaȄEȅeȈIȉiȌOȍoȐRȑrȔUȕuѶѴѷѵ"},
    {0x0311, "ȂAȃaȆEȇeȊIȋiȎOȏoȒRȓrȖUȗu"},
    {0x0313, "ἀαἈΑἐεἘΕἠηἨΗἰιἸΙὀοὈΟὐυὠωὨΩῤρ"},
    {0x0314, "ἁαἉΑἑεἙΕἡηἩΗἱιἹΙὁοὉΟὑυὙΥὡωὩΩῥρῬΡ"},
    {0x031B, "ƠOơoƯUưu"},
    {0x0323, "ḄBḅbḌDḍdḤHḥhḲKḳkḶLḷlṂMṃmṆNṇnṚRṛrṢSṣsṬTṭtṾVṿvẈWẉwẒZẓzẠAạaẸEẹeỊIịiỌOọoỢƠợơỤUụuỰƯựưỴYỵy"},
    {0x0324, "ṲUṳu"},
    {0x0325, "ḀAḁa"},
    {0x0326, "ȘSșsȚTțt"},
    {0x0327, "ÇCçcĢGģgĶKķkĻLļlŅNņnŖRŗrŞSşsŢTţtȨEȩeḐDḑdḨHḩh"},
    {0x0328, "ĄAąaĘEęeĮIįiŲUųuǪOǫo"},
    {0x032D, "ḒDḓdḘEḙeḼLḽlṊNṋnṰTṱtṶUṷu"},
    {0x032E, "ḪHḫh"},
    {0x0330, "ḚEḛeḬIḭiṴUṵu"},
    {0x0331, "ḆBḇbḎDḏdḴKḵkḺLḻlṈNṉnṞRṟrṮTṯtẔZẕzẖh"},
    {0x0342, "ἆἀἇἁἎἈἏἉἦἠἧἡἮἨἯἩἶἰἷἱἾἸἿἹὖὐὗὑὟὙὦὠὧὡὮὨὯὩᾶα῁¨ῆη῏᾿ῖιῗϊ῟῾ῦυῧϋῶω"},
    {0x0345,
     "ᾀἀᾁἁᾂἂᾃἃᾄἄᾅἅᾆἆᾇἇᾈἈᾉἉᾊἊᾋἋᾌἌᾍἍᾎἎᾏἏᾐἠᾑἡᾒἢᾓἣᾔἤᾕἥᾖἦᾗἧᾘἨᾙἩᾚἪᾛἫᾜἬᾝἭᾞἮᾟἯᾠὠᾡὡᾢὢᾣὣᾤὤᾥὥᾦὦᾧὧᾨὨᾩὩᾪὪᾫὫᾬὬᾭὭᾮὮᾯὯ"
     "ᾲὰᾳαᾴάᾷᾶᾼΑῂὴῃηῄήῇῆῌΗῲὼῳωῴώῷῶῼΩ"},
    {0x0653, "آا"},
    {0x0654, "أاؤوئيۀەۂہۓے"},
    {0x0655, "إا"},
    {0x3099,
     "がかぎきぐくげけごこざさじしずすぜせぞそだたぢちづつでてどとばはびひぶふべへぼほゔうゞゝガカギキグクゲケゴコザサ"
     "ジシズスゼセゾソダタヂチヅツデテドトバハビヒブフベヘボホヴウヷワヸヰヹヱヺヲヾヽ"},
    {0x309A, "ぱはぴひぷふぺへぽほパハピヒプフペヘポホ"},
};

// Pairs of a letter and the ASCII letter that it looks like (confusables.txt of Unicode 15): Cyrillic, Greek, others.
constexpr std::string_view kLikeAscii =
    "аaеeоoрpсcхxуyіiјjѕsһhԁdԛqԝwАAВBЕEКKМMНHОOРPСCТTХXУYІIЈJЅS"
    "αaοoνvρpυuγyιiΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧXıiɑaɡgօoսuոnհh";

struct Decomposed {
  uint32_t whole;
  uint32_t letter;
  uint32_t mark;
};

std::vector<Decomposed> sorted_table() {
  std::vector<Decomposed> table;
  for (const Marked& marked : kMarked) {
    const std::vector<uint32_t> letters = characters(marked.letters);
    for (size_t i = 0; i + 1 < letters.size(); i += 2) {
      table.push_back({letters[i], letters[i + 1], marked.mark});
    }
  }
  std::ranges::sort(table, {}, &Decomposed::whole);
  return table;
}

// Hangul syllables are numbered consecutively: 19 initial consonants x 21 vowels x 28 finals.
constexpr uint32_t kFirstSyllable = 0xAC00;
constexpr uint32_t kSyllables = 11172;

void decompose(uint32_t code, std::vector<uint32_t>& out) {
  static const std::vector<Decomposed> table = sorted_table();
  if (const uint32_t n = code - kFirstSyllable; code >= kFirstSyllable && n < kSyllables) {
    out.insert(out.end(), {0x1100 + n / 588, 0x1161 + n % 588 / 28});
    if (n % 28 != 0) {
      out.push_back(0x11A7 + n % 28);
    }
    return;
  }
  const auto found = std::ranges::lower_bound(table, code, {}, &Decomposed::whole);
  if (code >= 0x80 && found != table.end() && found->whole == code) {
    decompose(found->letter, out);
    out.push_back(found->mark);
  } else {
    out.push_back(code);
  }
}

bool is_mark(uint32_t code) {
  return (code >= 0x300 && code <= 0x36F) || (code >= 0x653 && code <= 0x655) || code == 0x3099 || code == 0x309A ||
         (code >= 0x1161 && code <= 0x11FF);
}

// The characters of a text in the form in which texts are compared.
std::vector<uint32_t> look_of(std::string_view text) {
  std::vector<uint32_t> look;
  for (const uint32_t code : characters(text)) {
    if (!is_invisible(code)) {
      decompose(code, look);
    }
  }
  for (uint32_t& code : look) {
    const char ascii = ascii_alike(code);
    code = ascii != 0 ? static_cast<unsigned char>(ascii) : code;
  }
  return look;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// The character at `at` with the marks that follow it, as "U+0065 U+0301"; empty at the end of the text.
std::string piece_of(const std::vector<uint32_t>& codes, size_t at) {
  std::string text;
  for (size_t i = at; i < codes.size() && (i == at || is_mark(codes[i])); ++i) {
    text += (text.empty() ? "" : " ") + number_of_character(codes[i]);
  }
  return text;
}

}  // namespace

std::vector<uint32_t> characters(std::string_view text) {
  std::vector<uint32_t> codes;
  while (!text.empty()) {
    const uint32_t length = sequence_length(text);
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
    uint32_t code = length == 0 ? 0x110000 + byte(0) : length == 1 ? byte(0) : byte(0) & (0xFFU >> (length + 1));
    for (size_t i = 1; i < length; ++i) {
      code = code << 6U | (byte(i) & 0x3FU);
    }
    codes.push_back(code);
    text.remove_prefix(std::max(length, 1U));
  }
  return codes;
}

std::string number_of_character(uint32_t code) {
  char text[24];
  std::snprintf(text, sizeof text, code < 0x110000 ? "U+%04X" : "the byte 0x%02X",
                static_cast<unsigned>(code < 0x110000 ? code : code - 0x110000));
  return text;
}

bool is_invisible(uint32_t code) {
  return code == 0xAD || (code >= 0x200B && code <= 0x200F) || (code >= 0x2060 && code <= 0x2064) || code == 0xFEFF ||
         (code >= 0xFE00 && code <= 0xFE0F);
}

char ascii_alike(uint32_t code) {
  if (code >= 0xFF01 && code <= 0xFF5E) {
    return static_cast<char>(code - 0xFEE0);  // full-width forms of ASCII characters
  }
  if (code == 0xA0 || (code >= 0x2000 && code <= 0x200A) || code == 0x202F || code == 0x205F || code == 0x3000) {
    return ' ';
  }
  static const std::vector<uint32_t> pairs = characters(kLikeAscii);
  for (size_t i = 0; code >= 0x80 && i + 1 < pairs.size(); i += 2) {
    if (pairs[i] == code) {
      return static_cast<char>(pairs[i + 1]);
    }
  }
  return 0;
}

std::string difference_of_alikes(std::string_view written, std::string_view known) {
  if (written == known || (is_ascii(written) && is_ascii(known)) || look_of(written) != look_of(known)) {
    return {};
  }
  const std::vector<uint32_t> a = characters(written);
  const std::vector<uint32_t> b = characters(known);
  const auto [one, other] = std::ranges::mismatch(a, b);
  auto at = static_cast<size_t>(one - a.begin());
  // A letter with a mark and the bare letter differ as a whole, so the difference starts at the letter.
  while (at > 0 && ((at < a.size() && is_mark(a[at])) || (at < b.size() && is_mark(b[at])))) {
    --at;
  }
  for (const auto& [codes, which] : {std::pair(&a, "this one has "), std::pair(&b, "it has ")}) {
    if (at < codes->size() && is_invisible((*codes)[at])) {
      return which + number_of_character((*codes)[at]) + ", which is invisible";
    }
  }
  return "it has " + piece_of(b, at) + " where this one has " + piece_of(a, at);
}

}  // namespace xrun
