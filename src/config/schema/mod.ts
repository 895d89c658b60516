/** All settings of the program, in the order in which help and README show them. */
import type { Setting, SettingsOf } from "../setting.ts";
import { ACCESS_SETTINGS } from "./access.ts";
import { ENGINE_SETTINGS } from "./engine.ts";
import { HTTP_SETTINGS } from "./http.ts";
import { LISTEN_SETTINGS } from "./listen.ts";
import { MUX_SETTINGS } from "./mux.ts";
import { OBSERVE_SETTINGS } from "./observe.ts";
import { ROUTING_SETTINGS } from "./routing.ts";

type Schema =
  | (typeof LISTEN_SETTINGS)[number]
  | (typeof OBSERVE_SETTINGS)[number]
  | (typeof ENGINE_SETTINGS)[number]
  | (typeof ACCESS_SETTINGS)[number]
  | (typeof HTTP_SETTINGS)[number]
  | (typeof ROUTING_SETTINGS)[number]
  | (typeof MUX_SETTINGS)[number];

/** Every setting. A flag may stand here twice when its default differs by mode; the modes are then distinct. */
export const SETTINGS: readonly Setting[] = Object.freeze([
  ...LISTEN_SETTINGS,
  ...OBSERVE_SETTINGS,
  ...ENGINE_SETTINGS,
  ...ACCESS_SETTINGS,
  ...HTTP_SETTINGS,
  ...ROUTING_SETTINGS,
  ...MUX_SETTINGS,
]);

/** Settings of `tokenplane start`. */
export type StartSettings = SettingsOf<Schema, "start">;
/** Settings of `tokenplane frontend`. */
export type FrontendSettings = SettingsOf<Schema, "frontend">;
/** Settings of `tokenplane worker`. */
export type WorkerSettings = SettingsOf<Schema, "worker">;
/** Settings by mode. */
export interface SettingsByMode {
  start: StartSettings;
  frontend: FrontendSettings;
  worker: WorkerSettings;
}
