/** Text with invisible characters, and those that change the direction of writing, as escapes. */

const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

export function visible(text: string): string {
  return text.replace(UNSEEN, (letter) => {
    const code = letter.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
