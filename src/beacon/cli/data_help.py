"""The help of ``beacon data``; each of its commands has a help of its own."""

USAGE = """\
usage: beacon data inspect|check|card|convert|repair [options]

Inspect, check and convert datasets of demonstrations: robomimic and MimicGen HDF5, LeRobot v2 and v3 folders,
diffusion_policy zarr, and cards (.yaml), which map a dataset to the policy's observations and actions.

  inspect   list demonstrations, lengths, arrays, shapes and ranges; draw images
  check     find errors and warnings; with several datasets, compare them with the target
  card      write a card for a dataset, to be edited: names, slices, scales, rates, image sizes
  convert   write a dataset in another format: robomimic HDF5, or a LeRobot v3.0 folder
  repair    write a copy with late, mirrored, rescaled or swapped actions undone, as an audit found them

examples:
  beacon data check sim.hdf5 real.hdf5                    check both and compare; the target last
  beacon data inspect sim.hdf5                            one table
  beacon data inspect sim.hdf5 --contact-sheet sim.png    with a picture
  beacon data inspect so101_real --html so101.html        a page with pictures and plots
  beacon data card so101_real > real.yaml                 then edit it, and use it as a dataset
  beacon data convert sim.hdf5 sim_lerobot                for LeRobot
  beacon data inspect --help                              every option

exit codes: 0 done, or no error found; 1 failed; 2 the input is wrong, or check found an error"""
