/** Durations for people. */

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** For example `2 d 3 h`, `12 min`, `45 s`; at most two units, the second only beside days and hours. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const at = UNITS.findIndex(([, size]) => whole >= size);
  if (at === -1) return "0 s";
  const [name, size] = UNITS[at] as [string, number];
  const count = Math.floor(whole / size);
  const smaller = UNITS[at + 1];
  if (at > 1 || smaller === undefined) return `${count} ${name}`;
  const rest = Math.floor((whole % size) / smaller[1]);
  return rest === 0 ? `${count} ${name}` : `${count} ${name} ${rest} ${smaller[0]}`;
}
